// @platformatic/kafka: one operation, named by the arguments `BOOTSTRAP COMMAND JSON`; the result is one line of JSON.
// The command has the arguments and the result that it has in ../franz_go/groups.go.

import { Consumer, MessagesStreamModes, stringDeserializers } from "@platformatic/kafka";

const [bootstrap, command, argument] = process.argv.slice(2);

const byNumber = (left, right) => left - right;

async function until(check) {
  while (!(await check())) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Let a member join the group of another, and leave it; return the partitions of each, and the values of all records.
async function rebalance({ topic, group, protocol }) {
  const values = new Set();
  const start = async (index) => {
    const consumer = new Consumer({
      bootstrapBrokers: bootstrap.split(","),
      clientId: `member-${index}`,
      groupId: group,
      groupProtocol: protocol,
      maxWaitTime: 100,
      deserializers: stringDeserializers,
    });
    const position = { mode: MessagesStreamModes.COMMITTED, fallbackMode: "earliest" };
    const stream = await consumer.consume({ topics: [topic], ...position });
    stream.on("data", ({ value }) => values.add(value));
    return { consumer, stream };
  };
  const assigned = ({ consumer }) =>
    (consumer.assignments ?? []).flatMap(({ partitions }) => partitions).sort(byNumber);
  const stop = async ({ consumer, stream }) => {
    await stream.close();
    await consumer.close();
  };

  const first = await start(0);
  await until(() => assigned(first).length === 4);
  const alone = assigned(first);
  const second = await start(1);
  await until(() => assigned(first).length === 2 && assigned(second).length === 2);
  const together = [assigned(first), assigned(second)];
  await stop(second);
  await until(() => assigned(first).length === 4);
  const after = assigned(first);
  await until(() => values.size >= 40);
  await stop(first);
  return { alone, together, after, values: [...values].sort() };
}

const commands = { rebalance };
const result = await commands[command](JSON.parse(argument));
process.stdout.write(`${JSON.stringify(result ?? null)}\n`);
process.exit(0);
