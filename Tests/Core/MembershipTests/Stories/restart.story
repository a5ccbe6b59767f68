# A process that starts again under its name is a new one; the former is gone at once and never comes back.
nodes 5
run 5s
changes
> a alive for b c d e, 0.0 s to 0.0 s
> d alive for a b c e, 0.0 s to 0.0 s
> b alive for a c d e, 0.0 s to 0.2 s
> e alive for a b c d, 0.0 s to 0.2 s
> c alive for a b d e, 0.0 s to 0.4 s
kill c
start c
run 5s
views
> a b c d e: a b c d e
changes
> c suspect for a b d e, 5.0 s to 5.0 s
> a alive for c, 5.0 s to 5.0 s
> c alive for a b d e, 5.0 s to 5.4 s
> c left for a b d e, 5.0 s to 5.4 s
> b alive for c, 5.0 s to 5.0 s
> d alive for c, 5.0 s to 5.0 s
> e alive for c, 5.0 s to 5.0 s
