# An owner dies. Gossip suspects it at once, the database fences it, and another shard goes on from the journal. The phone keeps its stream, and m3 waits for the next owner.
quotas untold
gateways 1 shards 2 partitions 4
look
> shard-2 owns partition 0 in epoch 2
> shard-2 owns partition 1 in epoch 2
> shard-1 owns partition 2 in epoch 1
> shard-2 owns partition 3 in epoch 1
phone registers
run 100ms unseen
phone listens
backend sends m1 m2 to phone
run 20ms
> 0.100 s  gateway-1 sends shard-1, for partition 2: attach stream 1 of phone, attachment 1
> 0.102 s  gateway-1 sends shard-1 request 2 for partition 2 in epoch 1: send m1 to phone
> 0.102 s  shard-1 sends gateway-1 word that stream 1 is attached behind the beginning
> 0.102 s  shard-1 sends gateway-1 word that nothing more waits: stream 1 is live
> 0.103 s  shard-1 writes record 3 of partition 2: m1 is accepted for phone
> 0.104 s  gateway-1 sends shard-1 request 3 for partition 2 in epoch 1: send m2 to phone
> 0.107 s  the database has record 3 of partition 2
> 0.107 s  shard-1 writes record 4 of partition 2: m2 is accepted for phone
> 0.107 s  shard-1 sends gateway-1 the answer to request 2: accepted
> 0.107 s  shard-1 sends gateway-1 push 1 of partition 2: m1 for phone
> 0.108 s  gateway-1 sends shard-1, for partition 2: push 1 is confirmed
> 0.109 s  the backend gets the answer for m1: accepted
> 0.109 s  phone gets m1
> 0.111 s  the database has record 4 of partition 2
> 0.112 s  shard-1 sends gateway-1 the answer to request 3: accepted
> 0.112 s  shard-1 sends gateway-1 push 2 of partition 2: m2 for phone
> 0.113 s  gateway-1 sends shard-1, for partition 2: push 2 is confirmed
> 0.113 s  the backend gets the answer for m2: accepted
> 0.114 s  phone gets m2
shard-1 dies
backend sends m3 to phone
run 3s
> 0.120 s  gateway-1 sends shard-1 request 4 for partition 2 in epoch 1: send m3 to phone
> 0.121 s  gateway-1 notices that its links with shard-1 broke
> 0.121 s  shard-2 notices that its links with shard-1 broke
> 0.121 s  gateway-1 hears from gossip that shard-1 is suspect
> 0.121 s  shard-2 hears from gossip that shard-1 is suspect
> 0.121 s  the network loses a frame: gateway-1 sends shard-1 request 4 for partition 2 in epoch 1: send m3 to phone
> 1.121 s  shard-2 hears from gossip that shard-1 is dead
> 1.121 s  gateway-1 hears from gossip that shard-1 is dead
> 2.133 s  shard-2 fences shard-1, whose lease stands at 31
> 2.133 s  gateway-1 fences shard-1, whose lease stands at 31
> 2.137 s  shard-2 hears from the database that shard-1 is fenced
> 2.137 s  gateway-1 hears from the database that shard-1 is fenced
> 2.141 s  shard-2 hears from gossip that shard-1 has left
> 2.141 s  shard-2 asks the database for partition 2, whose owner shard-1 is dead
> 2.141 s  gateway-1 hears from gossip that shard-1 has left
> 2.145 s  the database has record 5 of partition 2, a barrier
> 2.146 s  shard-2 owns partition 2 in epoch 2
> 2.146 s  shard-2 reads partition 2 from the journal
> 2.146 s  shard-2 nudges gateway-1: the tables have changed
> 2.147 s  shard-2 serves partition 2
> 2.153 s  gateway-1 sends shard-2 request 4 for partition 2 in epoch 2: send m3 to phone
> 2.153 s  gateway-1 sends shard-2, for partition 2: attach stream 1 of phone, attachment 9
> 2.154 s  shard-2 writes record 6 of partition 2: m3 is accepted for phone
> 2.157 s  the database has record 6 of partition 2
> 2.158 s  shard-2 sends gateway-1 the answer to request 4: accepted
> 2.158 s  shard-2 sends gateway-1 word that stream 1 is attached behind the beginning
> 2.158 s  shard-2 sends gateway-1 m1, m2 and m3 from the log, for stream 1
> 2.158 s  shard-2 sends gateway-1 word that nothing more waits: stream 1 is live
> 2.160 s  the backend gets the answer for m3: accepted
> 2.160 s  phone gets m3
look
> shard-2 owns partition 0 in epoch 2
> shard-2 owns partition 1 in epoch 2
> shard-2 owns partition 2 in epoch 2
> shard-2 owns partition 3 in epoch 1
