# A gateway is cut off from the owner. For up to a second it goes on with its share, and reports that later.
quota 1000 a second, 4000 at once
gateways 1
gateway-1 sends 2 every 10ms
run 500ms unseen
gateway-1 is cut
run 300ms
> 0.530 s  gateway-1 has admitted 6 sends
> 0.530 s  gateway-1 asks for 10 tokens, and reports 108 spent in all, 6 held
> 0.531 s  the network loses what gateway-1 said
> 0.560 s  gateway-1 has admitted 6 sends
> 0.570 s  gateway-1 lets 2 sends wait
> 0.575 s  gateway-1 asks for 10 tokens, and reports 114 spent in all, 0 held
> 0.576 s  the network loses what gateway-1 said
> 0.620 s  gateway-1 hears nothing of the owner, and has admitted 12 sends by its share
> 0.625 s  gateway-1 asks for 10 tokens, and reports 126 spent in all, 0 held
> 0.626 s  the network loses what gateway-1 said
> 0.720 s  gateway-1 hears nothing of the owner, and has admitted 20 sends by its share
> 0.725 s  gateway-1 asks for 10 tokens, and reports 146 spent in all, 0 held
> 0.726 s  the network loses what gateway-1 said
> 0.800 s  gateway-1 hears nothing of the owner, and has admitted 16 sends by its share
gateway-1 is back
run 200ms
> 0.920 s  gateway-1 hears nothing of the owner, and has admitted 24 sends by its share
> 0.925 s  gateway-1 asks for 10 tokens, and reports 186 spent in all, 0 held
> 0.926 s  the owner grants gateway-1 10 tokens for 200 ms, and a share of 262 a second for 1000 ms
> 0.950 s  gateway-1 has admitted 6 sends
> 0.950 s  gateway-1 asks for 11 tokens, and reports 192 spent in all, 4 held
> 0.951 s  the owner grants gateway-1 11 tokens for 100 ms, and a share of 258 a second for 1000 ms
> 1.000 s  gateway-1 has admitted 9 sends
> 1.000 s  gateway-1 asks for 7 tokens, and reports 201 spent in all, 6 held
> 1.000 s  gateway-1 has admitted 1 send
gateway-1 stops
run 200ms
> 1.001 s  the owner grants gateway-1 7 tokens for 100 ms, and a share of 241 a second for 1000 ms
> 1.010 s  gateway-1 has admitted 2 sends
> 1.050 s  gateway-1 gives back what it holds, and reports 204 spent in all
