# A subscription is an entry from the device partition to the topic partition, a message one back. Each side acknowledges when its own record is durable.
quotas untold
gateways 1 shards 2 partitions 4
look
> shard-2 owns partition 0 in epoch 2
> shard-2 owns partition 1 in epoch 2
> shard-1 owns partition 2 in epoch 1
> shard-2 owns partition 3 in epoch 1
phone registers
run 100ms
> 0.002 s  gateway-1 sends shard-1 request 1 for partition 2 in epoch 1: register a device
> 0.003 s  shard-1 writes record 2 of partition 2: a device is registered
> 0.007 s  the database has record 2 of partition 2
> 0.007 s  shard-1 sends gateway-1 the answer to request 1: done
> 0.009 s  phone gets the answer: registered in partition 2
phone subscribes to news
run 100ms
> 0.102 s  gateway-1 sends shard-1 request 2 for partition 2 in epoch 1: subscribe phone to news
> 0.103 s  shard-1 writes record 3 of partition 2: phone subscribes to news
> 0.107 s  the database has record 3 of partition 2
> 0.107 s  shard-1 sends shard-2, for partition 1: entry 3 of partition 2, phone joins news
> 0.108 s  shard-2 writes record 3 of partition 1: entry 3 of partition 2 is applied
> 0.112 s  the database has record 3 of partition 1
> 0.113 s  shard-2 sends shard-1, for partition 2: partition 1 has applied all entries up to 3
> 0.114 s  shard-1 sends gateway-1 the answer to request 2: done
> 0.115 s  phone gets the answer: done
backend sends m1 to news
run 1500ms
> 0.204 s  gateway-1 sends shard-2 request 3 for partition 1 in epoch 2: send m1 to news
> 0.205 s  shard-2 writes record 4 of partition 1: m1 is accepted for news
> 0.209 s  the database has record 4 of partition 1
> 0.209 s  shard-2 sends gateway-1 the answer to request 3: accepted
> 0.209 s  shard-2 sends shard-1, for partition 2: entry 4 of partition 1, m1 for phone
> 0.210 s  shard-1 writes record 4 of partition 2: partition 1 has all entries up to 3; entry 4 of partition 1 is applied
> 0.211 s  the backend gets the answer for m1: accepted
> 0.214 s  the database has record 4 of partition 2
> 0.215 s  shard-1 sends shard-2, for partition 1: partition 2 has applied all entries up to 4
> 1.216 s  shard-2 writes record 5 of partition 1: partition 2 has all entries up to 4
> 1.219 s  the database has record 5 of partition 1
