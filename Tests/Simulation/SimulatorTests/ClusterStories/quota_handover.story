# An owner leaves in order. Its heir reads the partition ahead, and goes on with the tokens that the owner leaves.
quota 100 a second, 1000 at once
gateways 1 shards 2 partitions 1
look
> shard-2 owns partition 0 in epoch 2
backend sends m1 to news
run 300ms unseen
shard-2 leaves
run 30ms
> 0.304 s  shard-2 asks its heir shard-1 to read partition 0 ahead
> 0.305 s  shard-1 reads partition 0 ahead
> 0.306 s  shard-1 tells shard-2 that it has read partition 0
> 0.307 s  shard-2 takes no more work for partition 0
> 0.307 s  shard-2 gives partition 0 up, and leaves 783 tokens for sends
> 0.311 s  shard-2 hears from the database that partition 0 has no owner now
> 0.311 s  shard-2 nudges gateway-1: the tables have changed
> 0.311 s  shard-2 nudges shard-1: the tables have changed
> 0.315 s  shard-2 has nothing left, and ends
> 0.316 s  gateway-1 hears from gossip that shard-2 has left
> 0.316 s  shard-1 hears from gossip that shard-2 has left
> 0.316 s  shard-1 asks the database for partition 0, which has no owner
> 0.320 s  the database has record 4 of partition 0, a barrier
> 0.321 s  shard-1 owns partition 0 in epoch 3
> 0.321 s  shard-1 reads partition 0 from the journal
> 0.321 s  shard-1 nudges gateway-1: the tables have changed
> 0.321 s  shard-1 nudges shard-2: the tables have changed
> 0.322 s  shard-1 serves partition 0
> 0.326 s  shard-2 has nothing left, and ends
backend sends m2 to news
run 1s
> 0.330 s  gateway-1 asks shard-1 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 0.331 s  shard-1 grants gateway-1 1 token for 1000 ms
> 0.332 s  gateway-1 sends shard-1 request 2 for partition 0 in epoch 3: send m2 to news
> 0.333 s  shard-1 writes record 5 of partition 0: m2 is accepted for news
> 0.337 s  the database has record 5 of partition 0
> 0.337 s  shard-1 sends gateway-1 the answer to request 2: accepted
> 0.339 s  the backend gets the answer for m2: accepted
> 0.366 s  gateway-1 notices that its links with shard-2 broke
> 0.366 s  shard-1 notices that its links with shard-2 broke
> 0.380 s  gateway-1 gives shard-1 back what it holds, with 1 spent in all
