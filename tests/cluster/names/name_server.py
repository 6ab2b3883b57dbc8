"""A name server (RFC 1035): every name in a domain has the address 127.0.0.1 and no other; the rest does not exist.

python name_server.py ADDRESS DOMAIN
"""

import socket
import struct
import sys

PORT = 53
HEADER_BYTES = 12
TYPE_A, CLASS_IN = 1, 1
AUTHORITATIVE_RESPONSE, NAME_ERROR = 0x8400, 3
POINTER_TO_QUESTION = 0xC000 | HEADER_BYTES
LOOPBACK = socket.inet_aton("127.0.0.1")


def response_to(request: bytes, domain: str) -> bytes:
    """Return the response to a request with one question."""
    end, labels = HEADER_BYTES, []
    while length := request[end]:
        labels.append(request[end + 1 : end + 1 + length].decode("ascii").lower())
        end += 1 + length
    question = request[HEADER_BYTES : end + 5]
    (record_type,) = struct.unpack_from(">H", request, end + 1)
    is_known = ".".join(labels).endswith(f".{domain}")
    records = b""
    if is_known and record_type == TYPE_A:
        records = struct.pack(">HHHIH", POINTER_TO_QUESTION, TYPE_A, CLASS_IN, 0, len(LOOPBACK)) + LOOPBACK
    flags = AUTHORITATIVE_RESPONSE | (0 if is_known else NAME_ERROR)
    return request[:2] + struct.pack(">HHHHH", flags, 1, 1 if records else 0, 0, 0) + question + records


def main() -> None:
    address, domain = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, PORT))
        print("ready", flush=True)
        while True:
            request, client = server.recvfrom(512)
            server.sendto(response_to(request, domain), client)


if __name__ == "__main__":
    main()
