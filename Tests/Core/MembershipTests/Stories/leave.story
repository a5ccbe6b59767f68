# A node that leaves in order and ends is suspected by nobody.
nodes 5
run 5s
changes
> a alive for b c d e, 0.0 s to 0.0 s
> d alive for a b c e, 0.0 s to 0.0 s
> b alive for a c d e, 0.0 s to 0.2 s
> e alive for a b c d, 0.0 s to 0.2 s
> c alive for a b d e, 0.0 s to 0.4 s
leave d
run 500ms
kill d
run 10s
views
> a b c e: a b c d(left) e
changes
> d left for a b c e, 5.0 s to 5.0 s
