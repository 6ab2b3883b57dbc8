"""A whole node with its log: the state of share-partitions, and the epochs that fence, survive a restart."""

from share_brokers import NodeInMemory


def test_restarted_node_has_the_same_state() -> None:
    broker = NodeInMemory()
    broker.prepare()
    broker.run("initialize v0 g t 0 state_epoch=3 start_offset=5")
    broker.run("read v0 g t 0 leader_epoch=2")
    for offset in range(5, 12):
        broker.run(
            "write v1 g t 0 state_epoch=3 leader_epoch=2 start_offset=-1 delivery_complete_count=1 "
            f"batches={offset}-{offset}:2:1"
        )
    commands = ("read v0 g t 0 leader_epoch=2", "read v0 g t 0 leader_epoch=1", "summary v1 g t 0 leader_epoch=-1")
    before = [broker.run(command) for command in commands]

    broker.running.node.begin_shutdown()
    broker.running.run_until(lambda: bool(broker.running.stopped))
    broker.running.node.close()
    restarted = NodeInMemory(broker.world)
    restarted.topics = broker.topics
    restarted.wait_until_loaded()

    assert [restarted.run(command) for command in commands] == before
    assert before[0] == ["t 0 NONE state_epoch=3 start_offset=5 batches=5-11:2:1"]
