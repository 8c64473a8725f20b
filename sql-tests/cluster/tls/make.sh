#!/usr/bin/env bash
# Makes the certificates of the tests of TLS: an authority, a process of the cluster, and one of another authority. The keys secure
# nothing. Valid for 100 years.
set -euo pipefail
cd "$(dirname "$0")"

authority() { # name
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$1" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" -keyout "$1-authority.key" -out "$1-authority.pem"
}

certificate() { # name of the authority
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1 process" -keyout "$1.key" -out request
    openssl x509 -req -in request -days 36500 -CA "$1-authority.pem" -CAkey "$1-authority.key" -set_serial 1 -out "$1.pem" -extfile <(
        printf 'subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n'
    )
    rm request
}

for name in own other; do
    authority "$name"
    certificate "$name"
    rm "$name-authority.key"
done
