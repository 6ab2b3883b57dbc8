// kafkajs: one operation, named by the arguments `BOOTSTRAP COMMAND JSON`; the result is one line of JSON.
// The commands, their arguments and their results are those of ../franz_go/main.go.

import kafkajs from "kafkajs";

const { CompressionTypes, Kafka, logLevel } = kafkajs;

const [bootstrap, command, argument] = process.argv.slice(2);
const kafka = new Kafka({
  brokers: bootstrap.split(","),
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => process.stderr.write(`${JSON.stringify(log)}\n`),
});

const textOf = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString());
const byNumber = (left, right) => left - right;

async function using(client, operate) {
  await client.connect();
  try {
    return await operate(client);
  } finally {
    await client.disconnect();
  }
}

function consumerOf(groupId, more = {}) {
  return kafka.consumer({
    groupId,
    maxWaitTimeInMs: 100,
    sessionTimeout: 6000,
    heartbeatInterval: 500,
    rebalanceTimeout: 10000,
    ...more,
  });
}

async function until(check) {
  while (!(await check())) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Produce with an idempotent producer; return nothing. The order of sends is kept only if each one awaits the one before.
async function produce({ topic, records }) {
  await using(kafka.producer({ idempotent: true }), async (producer) => {
    for (let first = 0; first < records.length; first += 10) {
      const part = records.slice(first, first + 10);
      const messages = part.map(([partition, key, value, headers]) => ({ partition, key, value, headers }));
      await producer.send({ topic, compression: CompressionTypes.GZIP, messages });
    }
  });
}

// Read `count` records from the start; return partition, key, value and headers of each.
async function consume({ topic, count, group, committed }) {
  const records = [];
  await using(consumerOf(group, { readUncommitted: !committed }), async (consumer) => {
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const headers = Object.entries(message.headers).map(([name, value]) => [name, textOf(value)]);
        records.push([partition, textOf(message.key), textOf(message.value), Object.fromEntries(headers)]);
      },
    });
    await until(() => records.length >= count);
  });
  return records;
}

const transactionalProducer = (transactionalId) =>
  kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });

// Write each list of values in a transaction, which is committed or aborted.
async function transact({ topic, id, transactions }) {
  await using(transactionalProducer(id), async (producer) => {
    for (const { values, commit } of transactions) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: values.map((value) => ({ value, partition: 0 })) });
      await (commit ? transaction.commit() : transaction.abort());
    }
  });
}

// Copy records, each batch with its offsets in a transaction, until the process is killed.
async function copy({ source, target, group, id }) {
  const producer = transactionalProducer(id);
  await producer.connect();
  const consumer = consumerOf(group, { maxBytesPerPartition: 1024, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      const transaction = await producer.transaction();
      const messages = batch.messages.map(({ value }) => ({ value, partition: batch.partition }));
      await transaction.send({ topic: target, messages });
      const offset = String(BigInt(batch.lastOffset()) + 1n);
      const topics = [{ topic: source, partitions: [{ partition: batch.partition, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: group, topics });
      await transaction.commit();
      resolveOffset(batch.lastOffset());
    },
  });
  await new Promise(() => {});
}

// Open a transaction in an instance, start another with the same id; return the error that the first one gets.
async function fence({ topic, id }) {
  return using(transactionalProducer(id), async (older) => {
    const transaction = await older.transaction();
    await transaction.send({ topic, messages: [{ value: "of the older instance", partition: 0 }] });
    return using(transactionalProducer(id), async (newer) => {
      const next = await newer.transaction();
      await next.send({ topic, messages: [{ value: "of the newer instance", partition: 0 }] });
      await next.commit();
      return transaction.commit().then(
        () => "committed",
        (error) => error.type ?? error.cause?.type ?? error.name,
      );
    });
  });
}

// Let a member join the group of another, and leave it; return the partitions of each, and the values of all records.
async function rebalance({ topic, group }) {
  const assigned = [[], []];
  const values = new Set();
  const start = async (index) => {
    const consumer = consumerOf(group);
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      assigned[index] = [...(payload.memberAssignment[topic] ?? [])].sort(byNumber);
    });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => void values.add(textOf(message.value)) });
    return consumer;
  };

  const first = await start(0);
  await until(() => assigned[0].length === 4);
  const alone = assigned[0];
  const second = await start(1);
  await until(() => assigned[0].length === 2 && assigned[1].length === 2);
  const together = [assigned[0], assigned[1]];
  await second.disconnect();
  await until(() => assigned[0].length === 4);
  const after = assigned[0];
  await until(() => values.size >= 40);
  await first.disconnect();
  return { alone, together, after, values: [...values].sort() };
}

// Create, describe, enlarge and delete a topic, and describe a group with one member.
async function administer({ topic, group }) {
  const values = ["1", "2", "3", "4", "5"];
  return using(kafka.admin(), async (admin) => {
    const configEntries = [{ name: "retention.ms", value: "7200000" }];
    const created = { topic, numPartitions: 3, replicationFactor: 1, configEntries };
    await admin.createTopics({ topics: [created] });
    const createdAgain = await admin.createTopics({ topics: [created] });
    await using(kafka.producer(), (producer) =>
      producer.send({ topic, messages: values.map((value) => ({ value, partition: 1 })) }),
    );
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const resource = { type: 2, name: topic, configNames: ["retention.ms"] };
    const { resources } = await admin.describeConfigs({ resources: [resource], includeSynonyms: false });
    const offsets = await admin.fetchTopicOffsets(topic);

    const consumer = consumerOf(group);
    const read = [];
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => void read.push(textOf(message.value)) });
    await until(() => read.length === values.length);
    const { groups } = await admin.describeGroups([group]);
    const listed = (await admin.listGroups()).groups.some(({ groupId }) => groupId === group);
    await consumer.disconnect();
    const committed = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    await admin.deleteGroups([group]);

    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    await admin.deleteTopics({ topics: [topic] });
    // The broker has the deletion a moment after the controller.
    await until(async () => !(await admin.listTopics()).includes(topic));
    return {
      created_again: createdAgain,
      partitions: topics[0].partitions.map(({ partitionId, leader }) => [partitionId, leader >= 0]).sort(),
      retention_ms: resources[0].configEntries[0].configValue,
      offsets: offsets.map(({ partition, low, high }) => [partition, Number(low), Number(high)]).sort(),
      group: [groups[0].state, groups[0].protocolType, groups[0].members.length, listed],
      committed: Number(committed[0].partitions.find(({ partition }) => partition === 1).offset),
    };
  });
}

const commands = { produce, consume, transact, copy, fence, rebalance, administer };
const result = await commands[command](JSON.parse(argument));
process.stdout.write(`${JSON.stringify(result ?? null)}\n`);
process.exit(0);
