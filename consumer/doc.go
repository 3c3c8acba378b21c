// Package consumer is the Kafka side of the bridge: it polls every route with
// one client, packs records into batches as they arrive, hands the batches to
// a Publisher and lets the group commit what the Publisher settled.
//
// What it promises:
//   - Nothing before the settling of a batch can advance a commit. The position
//     that is committed for a partition never passes a record that is not settled.
//   - Bytes between poll and acknowledgement stay below the window, apart from
//     one poll.
//   - A route that does not move costs the others memory at most for its share,
//     and a rebalance at most the drain limit.
//   - Run returns within nine seconds of the end of its context.
//
// One goroutine per route, the lane, owns the ledgers and slabs of the route's
// partitions; nothing else touches them. The poll loop, the group callbacks and
// the results of publishing reach the lane through its inbox and its results
// channel only.
package consumer
