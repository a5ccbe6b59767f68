# An owner dies, and nobody knows what it granted. The next owner waits until none of that can be spent any more, and begins empty.
quota 1000 a second, 4000 at once
gateways 1
gateway-1 sends 1
run 300ms unseen
owner dies
owner begins
gateway-1 sends 3
run 2s
> 0.300 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 0.300 s  gateway-1 lets 3 sends wait
> 0.301 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 0.325 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 0.326 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 0.375 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 0.376 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 0.475 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 0.476 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 0.675 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 0.676 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 1.075 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 1.076 s  owner 2 does not answer gateway-1: the former owner's grants may still be spent
> 1.575 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 1.576 s  owner 2 begins with an empty bucket
> 1.576 s  owner 2 grants gateway-1 1 token for 1000 ms
> 1.577 s  gateway-1 has admitted 1 send
> 1.577 s  gateway-1 asks for 1 token (for a send that waits), and reports 1 spent in all, 0 held
> 1.577 s  gateway-1 lets 2 sends wait
> 1.578 s  owner 2 grants gateway-1 1 token for 500 ms
> 1.579 s  gateway-1 has admitted 1 send
> 1.579 s  gateway-1 asks for 22 tokens (for a send that waits), and reports 2 spent in all, 0 held
> 1.579 s  gateway-1 lets 1 send wait
> 1.580 s  owner 2 grants gateway-1 22 tokens for 250 ms, and a share of 188 a second for 1000 ms
> 1.581 s  gateway-1 has admitted 1 send
> 1.625 s  gateway-1 gives back what it holds, and reports 3 spent in all
