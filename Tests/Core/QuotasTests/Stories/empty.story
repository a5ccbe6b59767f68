# Two gateways share one bucket. A send is refused only when the owner has said that there is no token.
quota 20 a second, 4 at once
gateways 2
gateway-1 sends 2
run 5ms
> 0.000 s  gateway-1 asks for 1 token (for a send that waits), and reports 0 spent in all, 0 held
> 0.000 s  gateway-1 lets 2 sends wait
> 0.001 s  the owner grants gateway-1 1 token for 1000 ms
> 0.002 s  gateway-1 has admitted 1 send
> 0.002 s  gateway-1 asks for 22 tokens (for a send that waits), and reports 1 spent in all, 0 held
> 0.002 s  gateway-1 lets 1 send wait
> 0.003 s  the owner grants gateway-1 1 token for 500 ms
> 0.004 s  gateway-1 has admitted 1 send
gateway-2 sends 3
run 60ms
> 0.005 s  gateway-2 asks for 1 token (for a send that waits), and reports 0 spent in all, 0 held
> 0.005 s  gateway-2 lets 3 sends wait
> 0.006 s  the owner grants gateway-2 1 token for 1000 ms
> 0.007 s  gateway-2 has admitted 1 send
> 0.007 s  gateway-2 asks for 30 tokens (for a send that waits), and reports 1 spent in all, 0 held
> 0.007 s  gateway-2 lets 2 sends wait
> 0.008 s  the owner grants gateway-2 1 token for 500 ms
> 0.009 s  gateway-2 has admitted 1 send
> 0.009 s  gateway-2 asks for 22 tokens (for a send that waits), and reports 2 spent in all, 0 held
> 0.009 s  gateway-2 lets 1 send wait
> 0.010 s  the owner has no token, and gateway-2 may ask again in 43 ms
> 0.011 s  gateway-2 refuses 1 send: the limit is 1200 a minute, try again in 50 ms
> 0.050 s  gateway-1 gives back what it holds, and reports 2 spent in all
> 0.055 s  gateway-2 gives back what it holds, and reports 2 spent in all
gateway-2 sends 1
run 100ms
> 0.065 s  gateway-2 asks for 2 tokens (for a send that waits), and reports 2 spent in all, 0 held
> 0.065 s  gateway-2 lets 1 send wait
> 0.066 s  the owner grants gateway-2 1 token for 125 ms
> 0.067 s  gateway-2 has admitted 1 send
> 0.115 s  gateway-2 gives back what it holds, and reports 3 spent in all
