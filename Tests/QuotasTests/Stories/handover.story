# An owner ends in order. The next owner goes on with what is left, and lets nothing flow in while the former owner's shares are valid.
quota 100 a second, 1000 at once
gateways 1
gateway-1 sends 150
run 100ms
> 0.000 s  gateway-1 asks for 1 token (for a send that waits), and reports 0 spent in all, 0 held
> 0.000 s  gateway-1 lets 150 sends wait
> 0.001 s  owner 1 begins with a full bucket of 1000 tokens
> 0.001 s  owner 1 grants gateway-1 1 token for 1000 ms
> 0.002 s  gateway-1 has admitted 1 send
> 0.002 s  gateway-1 asks for 1132 tokens (for a send that waits), and reports 1 spent in all, 0 held
> 0.002 s  gateway-1 lets 149 sends wait
> 0.003 s  owner 1 grants gateway-1 124 tokens for 500 ms, and a share of 100 a second for 1000 ms
> 0.004 s  gateway-1 has admitted 64 sends
> 0.004 s  gateway-1 asks for 1530 tokens, and reports 65 spent in all, 60 held
> 0.004 s  gateway-1 has admitted 60 sends
> 0.004 s  gateway-1 lets 25 sends wait
> 0.005 s  owner 1 grants gateway-1 105 tokens for 250 ms, and a share of 100 a second for 1000 ms
> 0.006 s  gateway-1 has admitted 25 sends
> 0.050 s  gateway-1 gives back what it holds, and reports 150 spent in all
owner leaves
owner begins
gateway-1 sends 50
run 100ms
> 0.100 s  owner 1 ends, and leaves 859 tokens to the next owner
> 0.100 s  gateway-1 asks for 86 tokens (for a send that waits), and reports 150 spent in all, 0 held
> 0.100 s  gateway-1 lets 50 sends wait
> 0.101 s  owner 2 begins with 859 tokens, and none flows in for 999 ms
> 0.101 s  owner 2 grants gateway-1 86 tokens for 1000 ms, and a share of 100 a second for 1000 ms
> 0.102 s  gateway-1 has admitted 45 sends
> 0.102 s  gateway-1 asks for 664 tokens, and reports 45 spent in all, 41 held
> 0.102 s  gateway-1 has admitted 5 sends
> 0.103 s  owner 2 grants gateway-1 96 tokens for 500 ms, and a share of 100 a second for 1000 ms
> 0.150 s  gateway-1 gives back what it holds, and reports 50 spent in all
