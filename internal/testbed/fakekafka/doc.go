// Package fakekafka starts an embedded Kafka (franz-go's kfake) for tests and
// the demo, and watches what clients commit.
//
//	c, err := fakekafka.Start(fakekafka.Options{Brokers: 3})  // loopback TCP
//	c, err := fakekafka.Start(fakekafka.Options{Network: &kfake.VirtualNetwork{}}) // in a synctest bubble
//	defer c.Close()
//
//	err := c.Create("orders", 3, nil)           // remembers the topic id
//	p, err := c.Producer()                      // explicit partitions
//	err = p.Produce(ctx, &kgo.Record{Topic: "orders", Partition: 2, Value: v})
//	_, err = c.Transaction(ctx, "tx-1", false, records...) // aborted
//	cl, err := c.Client(kgo.ConsumerGroup("g")) // seeds and dialer are set
//	c.Observe(observer)                         // commits and assignments
//	err = c.RestartBroker(1)                    // leaders move, connections are cut
//
// Cluster embeds *kfake.Cluster: Fault, ControlKey, SleepControl, Compact,
// DeleteRecords, DeleteTopic, MoveTopicPartition, RehashCoordinators, AddNode,
// GroupInfo and the rest are there as they are.
//
// Observing reads the bytes of the connections on the broker's side: it neither
// delays nor changes a request, and a ControlKey of the test sees the same as
// without it. An Observer is called before the broker handles a commit and
// again when it has accepted it.
package fakekafka
