# An owner dies, and nobody knows what it granted. The next owner answers only when none of that can be spent any more, and begins with an empty bucket.
quota 1000 a second, 4000 at once
gateways 1 shards 2 partitions 1
look
> shard-2 owns partition 0 in epoch 2
backend sends m1 to news
run 300ms unseen
shard-2 dies
backend sends m2 to news
run 4s
> 0.300 s  gateway-1 asks shard-2 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 0.301 s  gateway-1 notices that its links with shard-2 broke
> 0.301 s  shard-1 notices that its links with shard-2 broke
> 0.301 s  gateway-1 hears from gossip that shard-2 is suspect
> 0.301 s  shard-1 hears from gossip that shard-2 is suspect
> 0.301 s  the network loses a frame: gateway-1 asks shard-2 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 1.301 s  gateway-1 hears from gossip that shard-2 is dead
> 1.301 s  shard-1 hears from gossip that shard-2 is dead
> 1.809 s  gateway-1 fences shard-2, whose lease stands at 27
> 1.809 s  shard-1 fences shard-2, whose lease stands at 27
> 1.813 s  gateway-1 hears from the database that shard-2 is fenced
> 1.813 s  shard-1 hears from the database that shard-2 is fenced
> 1.817 s  gateway-1 hears from gossip that shard-2 has left
> 1.817 s  shard-1 hears from gossip that shard-2 has left
> 1.817 s  shard-1 asks the database for partition 0, whose owner shard-2 is dead
> 1.821 s  the database has record 4 of partition 0, a barrier
> 1.821 s  shard-1 owns partition 0 in epoch 3
> 1.821 s  shard-1 reads partition 0 from the journal
> 1.821 s  shard-1 nudges gateway-1: the tables have changed
> 1.823 s  shard-1 serves partition 0
> 2.075 s  gateway-1 asks shard-1 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 2.575 s  gateway-1 asks shard-1 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 3.075 s  gateway-1 asks shard-1 for 1 token (for a send that waits), with 0 held and 1 spent in all
> 3.076 s  shard-1 grants gateway-1 1 token for 1000 ms
> 3.077 s  gateway-1 sends shard-1 request 2 for partition 0 in epoch 3: send m2 to news
> 3.078 s  shard-1 writes record 5 of partition 0: m2 is accepted for news
> 3.082 s  the database has record 5 of partition 0
> 3.082 s  shard-1 sends gateway-1 the answer to request 2: accepted
> 3.084 s  the backend gets the answer for m2: accepted
> 3.125 s  gateway-1 gives shard-1 back what it holds, with 1 spent in all
