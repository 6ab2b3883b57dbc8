package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a group's member, with the partitions that it has now and the values that it has read.
type member struct {
	client   *kgo.Client
	lock     sync.Mutex
	assigned []int32
	values   []string
}

// newMember joins with the assignor "range", which kafkajs's assignor resembles: all partitions move in one rebalance.
// With the protocol "consumer" the broker assigns.
func newMember(ctx context.Context, topic, group, protocol string) *member {
	joined := &member{}
	set := func(change func(held []int32, partition int32) []int32) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			joined.lock.Lock()
			defer joined.lock.Unlock()
			for _, partition := range changed[topic] {
				joined.assigned = change(joined.assigned, partition)
			}
			slices.Sort(joined.assigned)
		}
	}
	remove := set(func(held []int32, partition int32) []int32 {
		return slices.DeleteFunc(held, func(each int32) bool { return each == partition })
	})
	options := groupOptions(topic, group)
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	joined.client = newClient(append(options,
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(set(func(held []int32, partition int32) []int32 { return append(held, partition) })),
		kgo.OnPartitionsRevoked(remove),
		kgo.OnPartitionsLost(remove),
	)...)
	go func() {
		for {
			fetches := joined.client.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			joined.lock.Lock()
			fetches.EachRecord(func(in *kgo.Record) { joined.values = append(joined.values, string(in.Value)) })
			joined.lock.Unlock()
		}
	}()
	return joined
}

func (m *member) partitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.assigned)
}

func (m *member) read() []string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.values)
}

func until(check func() bool) {
	for !check() {
		time.Sleep(20 * time.Millisecond)
	}
}

// rebalance lets a member join the group of another, and leave it: it returns the partitions of each, and all values.
func rebalance(ctx context.Context, given arguments) any {
	first := newMember(ctx, given.Topic, given.Group, given.Protocol)
	until(func() bool { return len(first.partitions()) == 4 })
	alone := first.partitions()
	second := newMember(ctx, given.Topic, given.Group, given.Protocol)
	until(func() bool { return len(first.partitions()) == 2 && len(second.partitions()) == 2 })
	together := [][]int32{first.partitions(), second.partitions()}
	second.client.Close()
	until(func() bool { return len(first.partitions()) == 4 })
	after := first.partitions()
	values := func() []string {
		all := append(first.read(), second.read()...)
		slices.Sort(all)
		return slices.Compact(all)
	}
	until(func() bool { return len(values()) >= 40 })
	first.client.Close()
	return map[string]any{"alone": alone, "together": together, "after": after, "values": values()}
}

// share lets two members of a share group read until they have `count` different values: it returns those of each.
func share(ctx context.Context, given arguments) any {
	var lock sync.Mutex
	read := make([][]string, 2)
	var clients []*kgo.Client
	for number := range read {
		client := newClient(kgo.ConsumeTopics(given.Topic), kgo.ShareGroup(given.Group))
		clients = append(clients, client)
		go func() {
			for {
				fetches := client.PollFetches(ctx)
				if fetches.IsClientClosed() {
					return
				}
				must(fetches.Err())
				lock.Lock()
				fetches.EachRecord(func(in *kgo.Record) { read[number] = append(read[number], string(in.Value)) })
				lock.Unlock()
			}
		}()
	}
	until(func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(read[0])+len(read[1]) >= given.Count
	})
	for _, client := range clients {
		client.Close()
	}
	return read
}

// administer creates, describes, enlarges and deletes a topic, and describes a group with one member.
func administer(ctx context.Context, given arguments) any {
	client := newClient()
	defer client.Close()
	admin := kadm.NewClient(client)
	retention := "7200000"
	create := func() error {
		created, err := admin.CreateTopics(ctx, 3, 1, map[string]*string{"retention.ms": &retention}, given.Topic)
		must(err)
		return created[given.Topic].Err
	}
	must(create())
	again := create()
	if again != kerr.TopicAlreadyExists {
		must(again)
	}
	must(client.ProduceSync(ctx, to(given.Topic, 1, "1", "2", "3", "4", "5")...).FirstErr())
	topics, err := admin.ListTopics(ctx, given.Topic)
	must(err)
	var partitions [][]any
	for _, each := range topics[given.Topic].Partitions.Sorted() {
		partitions = append(partitions, []any{each.Partition, each.Leader >= 0})
	}
	configs, err := admin.DescribeTopicConfigs(ctx, given.Topic)
	must(err)
	var shown string
	for _, each := range configs[0].Configs {
		if each.Key == "retention.ms" {
			shown = each.MaybeValue()
		}
	}

	reader := newMember(ctx, given.Topic, given.Group, given.Protocol)
	until(func() bool { return len(reader.read()) == 5 })
	groups, err := admin.DescribeGroups(ctx, given.Group)
	must(err)
	listed, err := admin.ListGroups(ctx)
	must(err)
	must(reader.client.CommitUncommittedOffsets(ctx))
	reader.client.Close()
	committed, err := admin.FetchOffsets(ctx, given.Group)
	must(err)
	last, _ := committed.Lookup(given.Topic, 1)
	offsets := offsetsOf(ctx, admin, given.Topic)
	_, err = admin.DeleteGroup(ctx, given.Group)
	must(err)

	_, err = admin.UpdatePartitions(ctx, 4, given.Topic)
	must(err)
	_, err = admin.DeleteTopic(ctx, given.Topic)
	must(err)
	// The broker has the deletion a moment after the controller.
	until(func() bool {
		left, err := admin.ListTopics(ctx)
		must(err)
		return !left.Has(given.Topic)
	})
	group := groups[given.Group]
	return map[string]any{
		"created_again": again == nil,
		"partitions":    partitions,
		"retention_ms":  shown,
		"offsets":       offsets,
		"group":         []any{group.State, group.ProtocolType, len(group.Members), listed[given.Group].Group == given.Group},
		"committed":     last.At,
	}
}

// offsetsOf returns partition, first offset and end offset of each partition.
func offsetsOf(ctx context.Context, admin *kadm.Client, topic string) [][]int64 {
	starts, err := admin.ListStartOffsets(ctx, topic)
	must(err)
	ends, err := admin.ListEndOffsets(ctx, topic)
	must(err)
	var offsets [][]int64
	for partition := range int32(len(starts[topic])) {
		start, _ := starts.Lookup(topic, partition)
		end, _ := ends.Lookup(topic, partition)
		offsets = append(offsets, []int64{int64(partition), start.Offset, end.Offset})
	}
	return offsets
}
