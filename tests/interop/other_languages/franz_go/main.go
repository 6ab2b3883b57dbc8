// franz-go: one operation, named by the arguments `BOOTSTRAP COMMAND JSON`; the result is one line of JSON.
// The commands, their arguments and their results are those of ../kafkajs/client.mjs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type arguments struct {
	Topic, Group, ID, Source, Target string
	Protocol                         string
	Count                            int
	Committed                        bool
	Records                          []record
	Transactions                     []struct {
		Values []string
		Commit bool
	}
}

type record struct {
	partition  int32
	key, value *string
	headers    map[string]string
}

func (r *record) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.partition, &r.key, &r.value, &r.headers})
}

func (r record) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.partition, r.key, r.value, r.headers})
}

var bootstrap []string

func main() {
	commands := map[string]func(context.Context, arguments) any{
		"produce":    produce,
		"consume":    consume,
		"transact":   transact,
		"copy":       copyRecords,
		"fence":      fence,
		"rebalance":  rebalance,
		"share":      share,
		"administer": administer,
	}
	bootstrap = strings.Split(os.Args[1], ",")
	var given arguments
	must(json.Unmarshal([]byte(os.Args[3]), &given))
	must(json.NewEncoder(os.Stdout).Encode(commands[os.Args[2]](context.Background(), given)))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newClient(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, common()...)...)
	must(err)
	return client
}

func common() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(bootstrap...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
}

func groupOptions(topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second),
	}
}

func isolation(committed bool) kgo.Opt {
	if committed {
		return kgo.FetchIsolationLevel(kgo.ReadCommitted())
	}
	return kgo.FetchIsolationLevel(kgo.ReadUncommitted())
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func textOf(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

func to(topic string, partition int32, values ...string) []*kgo.Record {
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
	}
	return records
}

// produce writes with an idempotent producer, which is the client's default.
func produce(ctx context.Context, given arguments) any {
	client := newClient(kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer client.Close()
	var records []*kgo.Record
	for _, each := range given.Records {
		out := &kgo.Record{Topic: given.Topic, Partition: each.partition}
		out.Key, out.Value = bytesOf(each.key), bytesOf(each.value)
		for name, value := range each.headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		records = append(records, out)
	}
	must(client.ProduceSync(ctx, records...).FirstErr())
	return nil
}

// consume reads `count` records from the start.
func consume(ctx context.Context, given arguments) any {
	client := newClient(append(groupOptions(given.Topic, given.Group), isolation(given.Committed))...)
	defer client.Close()
	var records []record
	for len(records) < given.Count {
		fetches := client.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(in *kgo.Record) {
			headers := map[string]string{}
			for _, header := range in.Headers {
				headers[header.Key] = string(header.Value)
			}
			records = append(records, record{in.Partition, textOf(in.Key), textOf(in.Value), headers})
		})
	}
	return records
}

// transact writes each list of values in a transaction, which is committed or aborted.
func transact(ctx context.Context, given arguments) any {
	client := newClient(kgo.TransactionalID(given.ID))
	defer client.Close()
	for _, each := range given.Transactions {
		must(client.BeginTransaction())
		must(client.ProduceSync(ctx, to(given.Topic, 0, each.Values...)...).FirstErr())
		must(client.EndTransaction(ctx, kgo.TransactionEndTry(each.Commit)))
	}
	return nil
}

// copyRecords copies records, each batch with its offsets in a transaction, until the process is killed.
func copyRecords(ctx context.Context, given arguments) any {
	options := append(common(), groupOptions(given.Source, given.Group)...)
	options = append(options, kgo.TransactionalID(given.ID), isolation(true), kgo.RequireStableFetchOffsets())
	session, err := kgo.NewGroupTransactSession(options...)
	must(err)
	for {
		fetches := session.PollRecords(ctx, 10)
		must(fetches.Err())
		must(session.Begin())
		var records []*kgo.Record
		fetches.EachRecord(func(in *kgo.Record) {
			records = append(records, &kgo.Record{Topic: given.Target, Partition: in.Partition, Value: in.Value})
		})
		produced := session.ProduceSync(ctx, records...).FirstErr()
		_, err := session.End(ctx, kgo.TransactionEndTry(produced == nil))
		must(err)
	}
}

// fence opens a transaction in an instance, starts another with the same id, and returns the error of the first.
func fence(ctx context.Context, given arguments) any {
	older, newer := newClient(kgo.TransactionalID(given.ID)), newClient(kgo.TransactionalID(given.ID))
	defer newer.Close()
	defer older.Close()
	must(older.BeginTransaction())
	must(older.ProduceSync(ctx, to(given.Topic, 0, "of the older instance")...).FirstErr())
	must(newer.BeginTransaction())
	must(newer.ProduceSync(ctx, to(given.Topic, 0, "of the newer instance")...).FirstErr())
	must(newer.EndTransaction(ctx, kgo.TryCommit))
	if err := older.EndTransaction(ctx, kgo.TryCommit); err != nil {
		name, _, _ := strings.Cut(err.Error(), ":")
		return name
	}
	return "committed"
}
