#!/usr/bin/env bash
# make_certs.sh FOLDER [NAME...]: an authority for development, and a certificate for each service.
#
# FOLDER/ca.crt, ca.key: the authority; a folder that has one keeps it, so that running this again
# renews the certificates alone. FOLDER/SERVICE/{tls.crt,tls.key,ca.crt}: what a service mounts at
# /etc/dspark/tls. FOLDER/public/{tls.crt,tls.key}: for clients of the gateway, valid for the NAMEs
# (host names or IP addresses) and localhost. DAYS=90 is how long the certificates hold; as root,
# OWNER=10001 makes them readable for the user of the images.
set -euo pipefail

folder=${1:?usage: make_certs.sh FOLDER [NAME...]}
shift
days=${DAYS:-90}
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
umask 077
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ ! -e $folder/ca.key ]]; then
    openssl req -x509 "${curve[@]}" -days 3650 -subj "/CN=DSpark development authority" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout "$folder/ca.key" -out "$folder/ca.crt" 2>/dev/null
fi

# issue COMMON_NAME ALTERNATIVE_NAMES USES FOLDER: each file is put in place whole.
issue() {
    mkdir -p "$4"
    printf 'subjectAltName=%s\nextendedKeyUsage=%s\nbasicConstraints=CA:FALSE\n' "$2" "$3" >"$work/extensions"
    openssl req "${curve[@]}" -subj "/CN=$1" -keyout "$work/tls.key" -out "$work/request" 2>/dev/null
    openssl x509 -req -in "$work/request" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" \
        -set_serial "0x$(openssl rand -hex 16)" -days "$days" -extfile "$work/extensions" \
        -out "$work/tls.crt" 2>/dev/null
    local name
    for name in tls.key tls.crt; do
        cp "$work/$name" "$4/$name.new"
        mv "$4/$name.new" "$4/$name"
    done
}

for service in gateway scheduler candidates verifier; do
    issue "$service" "DNS:$service,URI:spiffe://dspark/dspark/$service" serverAuth,clientAuth \
        "$folder/$service"
    cp "$folder/ca.crt" "$folder/$service/ca.crt"
done

names=DNS:localhost,IP:127.0.0.1
for name in "$@"; do
    if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then names+=,IP:$name; else names+=,DNS:$name; fi
done
issue "${1:-localhost}" "$names" serverAuth "$folder/public"
if [[ -n ${OWNER:-} ]]; then chown -R "$OWNER" "$folder"/{gateway,scheduler,candidates,verifier,public}; fi
echo "certificates for $days days are in $folder"
