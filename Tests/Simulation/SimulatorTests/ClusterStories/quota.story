# Two gateways share one bucket of 4 tokens. A send is refused only when the owner has said that there is no token.
quota 20 a second, 4 at once
gateways 2 shards 1 partitions 1
backend sends m1 m2 to news
run 20ms
> 0.002 s  gateway-2 asks shard-1 for 1 token (for a send that waits), with 0 held and 0 spent in all
> 0.002 s  gateway-1 asks shard-1 for 1 token (for a send that waits), with 0 held and 0 spent in all
> 0.003 s  shard-1 grants gateway-2 1 token for 1000 ms
> 0.003 s  shard-1 grants gateway-1 1 token for 1000 ms
> 0.004 s  gateway-2 sends shard-1 request 1 for partition 0 in epoch 1: send m1 to news
> 0.004 s  gateway-1 sends shard-1 request 2 for partition 0 in epoch 1: send m2 to news
> 0.005 s  shard-1 writes record 2 of partition 0: m1 is accepted for news; m2 is accepted for news
> 0.009 s  the database has record 2 of partition 0
> 0.009 s  shard-1 sends gateway-2 the answer to request 1: accepted
> 0.009 s  shard-1 sends gateway-1 the answer to request 2: accepted
> 0.011 s  the backend gets the answer for m1: accepted
> 0.011 s  the backend gets the answer for m2: accepted
backend sends m3 m4 m5 to news
run 200ms
> 0.020 s  gateway-2 asks shard-1 for 7 tokens (for a send that waits), with 0 held and 1 spent in all
> 0.020 s  gateway-1 asks shard-1 for 7 tokens (for a send that waits), with 0 held and 1 spent in all
> 0.021 s  shard-1 grants gateway-2 1 token for 500 ms
> 0.021 s  shard-1 grants gateway-1 1 token for 500 ms
> 0.022 s  gateway-2 sends shard-1 request 3 for partition 0 in epoch 1: send m3 to news
> 0.022 s  gateway-2 asks shard-1 for 22 tokens (for a send that waits), with 0 held and 2 spent in all
> 0.022 s  gateway-1 sends shard-1 request 4 for partition 0 in epoch 1: send m4 to news
> 0.023 s  shard-1 writes record 3 of partition 0: m3 is accepted for news; m4 is accepted for news
> 0.023 s  shard-1 has no token for gateway-2; it may ask again in 48 ms
> 0.025 s  the backend gets the answer for m5: the limit is 1200 a minute, try again in 50 ms
> 0.027 s  the database has record 3 of partition 0
> 0.027 s  shard-1 sends gateway-2 the answer to request 3: accepted
> 0.027 s  shard-1 sends gateway-1 the answer to request 4: accepted
> 0.029 s  the backend gets the answer for m3: accepted
> 0.029 s  the backend gets the answer for m4: accepted
> 0.050 s  gateway-2 gives shard-1 back what it holds, with 2 spent in all
> 0.050 s  gateway-1 gives shard-1 back what it holds, with 2 spent in all
