#!/usr/bin/env bash
# Makes base images from Debian packages, for machines that reach a Debian mirror but no registry:
#   dspark-base   Python 3.11 (BASE_IMAGE)
#   dspark-redis  the same with redis-server (REDIS_IMAGE)
#   dspark-build  the same with g++ too (BUILD_IMAGE)
# With --prometheus also dspark-prometheus (PROMETHEUS_IMAGE). Run as root; needs mmdebstrap and docker.
set -euo pipefail

suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
certificates=/etc/ssl/certs/ca-certificates.crt

fail() { echo "error: $*" >&2; exit 1; }

# Called by mmdebstrap inside its mounts: each stage adds packages and becomes an image.
add() {
    local root=$1
    shift
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

import() {
    local root=$1 name=$2
    shift 2
    tar -C "$root" -c --numeric-owner --one-file-system \
        --exclude='./var/lib/apt/lists/*' --exclude='./var/cache/apt/*' --exclude='./tmp/*' \
        --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --exclude=./etc/resolv.conf \
        --exclude=./usr/sbin/policy-rc.d . | docker import "$@" - "$name" >/dev/null
    echo "made $name"
}

stages() {
    local root=$1
    # Whatever stands between this machine and a package index, images trust it as the machine does.
    install -D -m 0644 "$certificates" "$root$certificates"
    import "$root" dspark-base -c "ENV PIP_CERT=$certificates" -c 'CMD ["python3"]'
    add "$root" redis-server
    chroot "$root" install -d -o redis -g redis /data
    import "$root" dspark-redis -c 'USER redis' -c 'WORKDIR /data' -c 'CMD ["redis-server"]'
    if [[ ${WITH_PROMETHEUS:-} ]]; then
        add "$root" prometheus
        import "$root" dspark-prometheus -c 'ENTRYPOINT ["prometheus"]'
    fi
    add "$root" g++
    import "$root" dspark-build -c "ENV PIP_CERT=$certificates" -c 'CMD ["python3"]'
}

main() {
    [[ ${1:-} == --prometheus ]] && export WITH_PROMETHEUS=1
    ((EUID == 0)) || fail "run this as root"
    command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing: apt-get install mmdebstrap"
    docker info >/dev/null 2>&1 || fail "no Docker engine answers"
    [[ -r $certificates ]] || fail "ca-certificates is missing: apt-get install ca-certificates"
    mmdebstrap --quiet --mode=root --variant=apt --format=null \
        --include=python3,python3-venv \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="$(printf '%q --stages "$1"' "$(realpath "$0")")" \
        "$suite" /dev/null "$mirror"
}

if [[ ${1:-} == --stages ]]; then stages "$2"; else main "$@"; fi
