# Nobody's connection breaks when the cable does: the probes find it.
nodes 6
run 5s
changes
> a alive for b c d e f, 0.0 s to 0.0 s
> c alive for a b d e f, 0.0 s to 0.0 s
> f alive for a b c d e, 0.0 s to 0.2 s
> e alive for a b c d f, 0.0 s to 0.2 s
> d alive for a b c e f, 0.0 s to 0.2 s
> b alive for a c d e f, 0.0 s to 0.4 s
split c | a b d e f
run 12s
views
> a b d e f: a b c(dead) d e f
> c: a(dead) b(dead) c d(dead) e(dead) f(dead)
changes
> b suspect for c, 5.2 s to 5.2 s
> c suspect for a b d e f, 5.2 s to 5.3 s
> a suspect for c, 6.0 s to 6.0 s
> c dead for a b d e f, 6.2 s to 6.2 s
> d suspect for c, 7.0 s to 7.0 s
> c is cut off, 7.2 s
> e suspect for c, 8.0 s to 8.0 s
> f suspect for c, 10.0 s to 10.0 s
> b dead for c, 10.2 s to 10.2 s
> a dead for c, 11.0 s to 11.0 s
> d dead for c, 12.0 s to 12.0 s
> e dead for c, 13.0 s to 13.0 s
> f dead for c, 15.0 s to 15.0 s
