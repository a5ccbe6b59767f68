# A node that stands still for a moment is suspected and contradicts; for longer than a suspicion, it is dead and comes back by
# itself. Whoever slept blames nobody else.
nodes 6
run 5s
changes
> e alive for a b c d f, 0.0 s to 0.0 s
> d alive for a b c e f, 0.0 s to 0.0 s
> b alive for a c d e f, 0.0 s to 0.0 s
> c alive for a b d e f, 0.0 s to 0.0 s
> f alive for a b c d e, 0.0 s to 0.0 s
> a alive for b c d e f, 0.0 s to 0.0 s
sleep c 800ms
run 5s
views
> a b c d e f: a b c d e f
changes
> c suspect for a b d e f, 5.4 s to 5.5 s
> c alive for a b d e f, 5.8 s to 5.8 s
sleep c 12s
run 12s
views
> a b d e f: a b c(dead) d e f
> c: a b c d e f
changes
> c suspect for a b d e f, 10.2 s to 10.4 s
> c dead for a b d e f, 11.2 s to 11.4 s
run 3s
views
> a b c d e f: a b c d e f
changes
> c alive for a b d e f, 22.0 s to 22.0 s
