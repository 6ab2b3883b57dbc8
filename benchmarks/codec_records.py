"""How fast record batches are parsed, checked, built, read and walked: a table on standard output.

    python benchmarks/codec_records.py [--records 1000] [--value-size-bytes 100] [--seconds 0.3]

Every figure is the best of five rounds, each of at least a fifth of ``--seconds``, on one core. Values are words of a
small vocabulary, so that the codecs have something to find; keys are eight bytes.
"""

import argparse
import time
from collections.abc import Callable

from ottla.wire.records import (
    Compression,
    Record,
    build_batch,
    compress,
    crc32c,
    decompress,
    iterate_batches,
    parse_batch,
    read_records,
    validate_records,
)
from ottla.wire.records.crc32c import portable_checksum

ROUNDS = 5
SIZE_BYTES_MAX = 1 << 30
WORDS = b"delayed departed arrived diverted cancelled boarding taxiing holding cleared airborne".split()


def best_seconds(action: Callable[[], object], seconds: float) -> float:
    """Return the seconds of one call in the best round."""
    action()
    started = time.perf_counter()
    action()
    calls = max(1, int(seconds / ROUNDS / max(time.perf_counter() - started, 1e-9)))
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, (time.perf_counter() - started) / calls)
    return best


def make_records(count: int, value_size_bytes: int) -> list[Record]:
    records = []
    for offset in range(count):
        words = b" ".join(WORDS[(offset * 7 + step * step) % len(WORDS)] for step in range(value_size_bytes // 6))
        records.append(Record(offset, 1_763_700_000_000 + offset // 3, b"%08d" % offset, words[:value_size_bytes]))
    return records


def print_header_table(seconds: float) -> None:
    small = build_batch(make_records(1, 100))
    fetched = small * 1_000
    megabyte = bytes(range(256)) * 4_096
    portable = portable_checksum()
    batch = parse_batch(bytearray(small))
    rows = [
        ("parse one header", best_seconds(lambda: parse_batch(small), seconds) * 1e9, "ns"),
        ("iterate, per batch", best_seconds(lambda: sum(1 for _ in iterate_batches(fetched)), seconds) * 1e6, "ns"),
        ("patch offset and epoch", best_seconds(lambda: batch.patch(1, 2), seconds) * 1e9, "ns"),
        ("check the CRC of 180 bytes", best_seconds(batch.check_crc, seconds) * 1e9, "ns"),
        ("CRC-32C, 1 MiB", len(megabyte) / best_seconds(lambda: crc32c(megabyte), seconds) / 1e9, "GB/s"),
        ("CRC-32C portable, 1 MiB", len(megabyte) / best_seconds(lambda: portable(megabyte), seconds) / 1e9, "GB/s"),
    ]
    for label, figure, unit in rows:
        print(f"{label:<28}{figure:>10.2f} {unit}")


def print_codec_table(records: list[Record], seconds: float) -> None:
    count = len(records)
    plain = bytes(parse_batch(build_batch(records)).payload)
    print(f"\n{count} records, {len(plain)} bytes without compression")
    print(
        f"{'codec':<8}{'bytes':>9}{'build/s':>12}{'read/s':>12}{'validate/s':>12}"
        f"{'compress MB/s':>15}{'decompress MB/s':>17}"
    )
    for kind in Compression:
        data = build_batch(records, compression=kind)
        batch = parse_batch(data)
        packed = compress(kind, plain)
        figures = [
            count / best_seconds(lambda kind=kind: build_batch(records, compression=kind), seconds),
            count / best_seconds(lambda batch=batch: read_records(batch, size_bytes_max=SIZE_BYTES_MAX), seconds),
            count / best_seconds(lambda batch=batch: validate_records(batch, size_bytes_max=SIZE_BYTES_MAX), seconds),
            len(plain) / 1e6 / best_seconds(lambda kind=kind: compress(kind, plain), seconds),
            len(plain)
            / 1e6
            / best_seconds(
                lambda kind=kind, packed=packed: decompress(kind, packed, size_bytes_max=len(plain)), seconds
            ),
        ]
        print(
            f"{kind.label:<8}{len(data):>9}{figures[0]:>12,.0f}{figures[1]:>12,.0f}{figures[2]:>12,.0f}"
            f"{figures[3]:>15,.0f}{figures[4]:>17,.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000, help="records in the batch (default 1000)")
    parser.add_argument("--value-size-bytes", type=int, default=100, help="bytes of each value (default 100)")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure (default 0.3)")
    options = parser.parse_args()
    print_header_table(options.seconds)
    print_codec_table(make_records(options.records, options.value_size_bytes), options.seconds)


if __name__ == "__main__":
    main()
