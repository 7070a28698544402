"""Word streams. Statistical tests: false-alarm rate 1e-6, fixed seeds."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from sampler_laws import ALPHA, RiggedStream, chi_square

from dpublish.errors import InputError
from dpublish.noise import words
from dpublish.noise.words import SeededStream, SystemStream, WordStream


def key_stream(key: bytes, size: int) -> bytes:
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


def test_a_seed_gives_the_same_words_again() -> None:
    first, second = SeededStream(5), SeededStream(5)
    assert np.array_equal(first.words(1000), second.words(1000))
    assert first.bits(77) == second.bits(77)
    assert not np.array_equal(SeededStream(5).words(4), SeededStream(6).words(4))


def test_a_seeded_stream_is_chacha20_under_the_hash_of_its_seed() -> None:
    key = hashlib.sha256(b"dpublish seeded stream/5/0").digest()
    assert SeededStream(5).words(1000).tobytes() == key_stream(key, 8000)


def test_words_do_not_depend_on_how_they_are_asked_for() -> None:
    pieces, whole = SeededStream(3), SeededStream(3)
    joined = np.concatenate([pieces.words(n) for n in (1, 0, 7, 200_000, 3)])
    assert np.array_equal(joined, whole.words(joined.size))


def test_a_stream_takes_a_new_key_after_the_stated_number_of_bytes() -> None:
    keys = [hashlib.sha256(f"dpublish seeded stream/9/{k}".encode()).digest() for k in range(3)]
    expected = b"".join(key_stream(key, 104) for key in keys)
    assert SeededStream(9, rekey_bytes=104).words(39).tobytes() == expected


def test_the_system_stream_asks_the_system_for_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def urandom(n: int) -> bytes:
        asked.append(n)
        return len(asked).to_bytes(n, "little")

    monkeypatch.setattr(words.os, "urandom", urandom)
    SystemStream(rekey_bytes=100).words(125)
    assert asked == [32] * 10


def test_system_streams_differ() -> None:
    seen = np.concatenate([SystemStream().words(100) for _ in range(5)])
    assert np.unique(seen).size == 500


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_a_copy_of_a_system_stream_has_its_own_key(duplicate) -> None:
    stream = SystemStream()
    stream.bits(8)
    other = duplicate(stream)
    assert not np.array_equal(stream.words(4), other.words(4))
    assert stream.bits(128) != other.bits(128)


def words_in_child(stream: WordStream) -> np.ndarray:
    """The next words and the next bits of the stream, as a forked child sees them."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, stream.words(8).tobytes() + stream.bits(64).to_bytes(8, "little"))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    assert len(data) == 72
    return np.frombuffer(data, dtype=np.uint64)


@pytest.mark.parametrize("same_process_id", [False, True])
def test_a_fork_never_shares_words(monkeypatch: pytest.MonkeyPatch, same_process_id: bool) -> None:
    if same_process_id:
        # Process ids are reused: the fork itself must be noticed, not only a changed id.
        monkeypatch.setattr(words.os, "getpid", lambda: 4242)
    stream = SystemStream()
    stream.words(8)
    stream.bits(64)
    children = [words_in_child(stream) for _ in range(3)]
    own = np.append(stream.words(8), np.uint64(stream.bits(64)))
    assert np.unique(np.concatenate([*children, own])).size == 36


def test_a_fork_while_another_thread_draws_does_not_block_the_child() -> None:
    stream = SystemStream()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with stream._stream._lock:
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        assert words_in_child(stream).size == 9
    finally:
        release.set()
        thread.join()


def test_threads_never_share_words() -> None:
    stream = SystemStream(rekey_bytes=1000)
    found: list[np.ndarray] = []

    def draw() -> None:
        for _ in range(200):
            found.append(stream.words(16))
            found.append(np.array([stream.bits(64)], dtype=np.uint64))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = np.concatenate(found)
    assert seen.size == 4 * 200 * 17
    assert np.unique(seen).size == seen.size


@pytest.mark.parametrize(
    "stream", [SeededStream(1), RiggedStream([], seed=1)], ids=["cipher", "base"]
)
def test_bits_and_below_are_uniform(stream: WordStream) -> None:
    # 20,000 draws: catches a cell that is off by a quarter.
    counts = np.bincount([stream.bits(4) for _ in range(20_000)], minlength=16)
    assert chi_square(counts, np.full(16, 1250)) > ALPHA
    counts = np.bincount([stream.below(11) for _ in range(22_000)], minlength=11)
    assert chi_square(counts, np.full(11, 2000)) > ALPHA
    assert not chi_square(counts, np.array([2500, *[1950] * 10])) > ALPHA


def test_the_base_class_makes_bits_from_words() -> None:
    class Plain(WordStream):
        def fill(self, out: np.ndarray) -> None:
            out[:] = np.arange(1, out.size + 1, dtype=np.uint64)

    assert Plain().bits(0) == 0
    assert Plain().bits(64) == 1
    assert Plain().bits(66) == 1 + (2 << 64)
    assert Plain().bits(65) == 1


def test_odd_sizes() -> None:
    stream = SeededStream(2)
    assert stream.bits(0) == 0
    assert stream.below(1) == 0
    assert stream.words(0).size == 0
    assert stream.bits(100_000).bit_length() > 99_900
    huge = 10**200
    draws = [stream.below(huge) for _ in range(50)]
    assert all(0 <= d < huge for d in draws)
    assert max(draws) > huge // 2


def test_wrong_arguments() -> None:
    with pytest.raises(InputError):
        SeededStream(1).below(0)
    with pytest.raises(InputError):
        SystemStream(rekey_bytes=0)
    with pytest.raises(InputError):
        SeededStream(1, rekey_bytes=0)
