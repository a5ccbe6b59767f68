# A message is durable before it is pushed. The links break: the gateway attaches the stream again, and writes nothing twice to the phone.
quotas untold
gateways 1 shards 1 partitions 1
phone registers
run 100ms unseen
phone listens
run 100ms
> 0.100 s  gateway-1 sends shard-1, for partition 0: attach stream 1 of phone, attachment 1
> 0.102 s  shard-1 sends gateway-1 word that stream 1 is attached behind the beginning
> 0.102 s  shard-1 sends gateway-1 word that nothing more waits: stream 1 is live
backend sends m1 to phone
run 100ms
> 0.202 s  gateway-1 sends shard-1 request 2 for partition 0 in epoch 1: send m1 to phone
> 0.203 s  shard-1 writes record 3 of partition 0: m1 is accepted for phone
> 0.207 s  the database has record 3 of partition 0
> 0.207 s  shard-1 sends gateway-1 the answer to request 2: accepted
> 0.207 s  shard-1 sends gateway-1 push 1 of partition 0: m1 for phone
> 0.208 s  gateway-1 sends shard-1, for partition 0: push 1 is confirmed
> 0.209 s  the backend gets the answer for m1: accepted
> 0.209 s  phone gets m1
links of gateway-1 break
backend sends m2 to phone
run 100ms
> 0.301 s  gateway-1 notices that its links with shard-1 broke
> 0.301 s  shard-1 notices that its links with gateway-1 broke
> 0.301 s  gateway-1 hears from gossip that shard-1 is suspect
> 0.301 s  shard-1 sends gateway-1 a gap notice: frames between the two may be lost
> 0.301 s  shard-1 hears from gossip that gateway-1 is suspect
> 0.303 s  gateway-1 sends shard-1, for partition 0: attach stream 1 of phone, attachment 2
> 0.303 s  gateway-1 sends shard-1 a gap notice: frames between the two may be lost
> 0.303 s  gateway-1 sends shard-1, for partition 0: attach stream 1 of phone, attachment 3
> 0.305 s  shard-1 sends gateway-1 word that stream 1 is attached behind the beginning
> 0.305 s  shard-1 sends gateway-1 m1 from the log, for stream 1
> 0.305 s  shard-1 sends gateway-1 word that nothing more waits: stream 1 is live
> 0.327 s  gateway-1 sends shard-1 request 3 for partition 0 in epoch 1: send m2 to phone
> 0.328 s  shard-1 writes record 4 of partition 0: m2 is accepted for phone
> 0.332 s  the database has record 4 of partition 0
> 0.332 s  shard-1 sends gateway-1 the answer to request 3: accepted
> 0.332 s  shard-1 sends gateway-1 push 2 of partition 0: m2 for phone
> 0.333 s  gateway-1 sends shard-1, for partition 0: push 2 is confirmed
> 0.334 s  the backend gets the answer for m2: accepted
> 0.334 s  phone gets m2
