# A gateway leases tokens from the owner of the bucket, spends them by itself, and gives back what it does not need.
quota 1000 a second, 4000 at once
gateways 1
gateway-1 sends 1
run 10ms
> 0.000 s  gateway-1 asks for 1 token (for a send that waits), and reports 0 spent in all, 0 held
> 0.000 s  gateway-1 lets 1 send wait
> 0.001 s  the owner grants gateway-1 1 token for 1000 ms
> 0.002 s  gateway-1 has admitted 1 send
gateway-1 sends 1 every 10ms
run 60ms
> 0.010 s  gateway-1 asks for 15 tokens (for a send that waits), and reports 1 spent in all, 0 held
> 0.010 s  gateway-1 lets 1 send wait
> 0.011 s  the owner grants gateway-1 15 tokens for 500 ms, and a share of 125 a second for 1000 ms
> 0.070 s  gateway-1 has admitted 7 sends
gateway-1 stops
run 200ms
> 0.080 s  gateway-1 has admitted 1 send
> 0.125 s  gateway-1 gives back what it holds, and reports 9 spent in all
