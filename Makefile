PY := .venv/bin/python

.PHONY: proto
proto:
	cd protos && ../$(PY) -m grpc_tools.protoc -I . --python_out=../shared --pyi_out=../shared dspark/v1/*.proto
	cd protos && ../$(PY) -m grpc_tools.protoc -I . --grpc_python_out=../shared dspark/v1/*_service.proto
