# A node that is killed is suspected by all at once, because their connections break, and dead a good second later.
nodes 6
run 5s
views
> a b c d e f: a b c d e f
changes
> a alive for b c d e f, 0.0 s to 0.0 s
> c alive for a b d e f, 0.0 s to 0.0 s
> f alive for a b c d e, 0.0 s to 0.2 s
> e alive for a b c d f, 0.0 s to 0.2 s
> d alive for a b c e f, 0.0 s to 0.2 s
> b alive for a c d e f, 0.0 s to 0.4 s
kill c
run 10s
views
> a b d e f: a b c(dead) d e f
changes
> c suspect for a b d e f, 5.0 s to 5.0 s
> c dead for a b d e f, 6.0 s to 6.0 s
