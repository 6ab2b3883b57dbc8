"""`JavaPriorityQueue`: a binary heap that returns items with equal keys in the order in which Java does.

`heapq` keeps another order among equal keys: it moves the last item to the bottom first, and then up.

Source: java.util.PriorityQueue (OpenJDK 17).
"""

from typing import Generic, TypeVar

T = TypeVar("T")


class JavaPriorityQueue(Generic[T]):
    """Items with a key each, which must not change while the item is in the queue; the smallest key comes first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, T]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, key: float, item: T) -> None:
        heap = self._heap
        added = (key, item)
        position = len(heap)
        heap.append(added)
        while position:
            above = (position - 1) >> 1
            parent = heap[above]
            if key >= parent[0]:
                break
            heap[position] = parent
            position = above
        heap[position] = added

    def poll(self) -> T:
        """Remove and return the first item.

        Raises:
            IndexError: the queue is empty.
        """
        heap = self._heap
        moved = heap.pop()
        size = len(heap)
        if not size:
            return moved[1]
        first = heap[0][1]
        key = moved[0]
        position = 0
        while position < size >> 1:
            below = 2 * position + 1
            child = heap[below]
            if below + 1 < size and child[0] > heap[below + 1][0]:
                below += 1
                child = heap[below]
            if key <= child[0]:
                break
            heap[position] = child
            position = below
        heap[position] = moved
        return first
