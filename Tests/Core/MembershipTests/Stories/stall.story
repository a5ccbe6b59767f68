# A node that stands still for a moment is suspected and contradicts; for longer than a suspicion, it is dead and comes back by
# itself. A node that slept blames nobody else.
nodes 6
run 5s
changes
> a alive for b c d e f, 0.0 s to 0.0 s
> c alive for a b d e f, 0.0 s to 0.0 s
> f alive for a b c d e, 0.0 s to 0.2 s
> e alive for a b c d f, 0.0 s to 0.2 s
> d alive for a b c e f, 0.0 s to 0.2 s
> b alive for a c d e f, 0.0 s to 0.4 s
sleep c 800ms
run 5s
views
> a b c d e f: a b c d e f
changes
> c suspect for a b d e f, 5.2 s to 5.2 s
> c alive for a b d e f, 5.8 s to 5.8 s
sleep c 12s
run 12s
views
> a b d e f: a b c(dead) d e f
> c: a b c d e f
changes
> c suspect for a b d e f, 10.8 s to 11.0 s
> c dead for a b d e f, 11.8 s to 11.8 s
run 3s
views
> a b c d e f: a b c d e f
changes
> c alive for a b d e f, 22.0 s to 22.0 s
