# a and b do not reach each other and both reach the others: nobody dies.
nodes 5
run 5s
changes
> a alive for b c d e, 0.0 s to 0.0 s
> d alive for a b c e, 0.0 s to 0.0 s
> b alive for a c d e, 0.0 s to 0.2 s
> e alive for a b c d, 0.0 s to 0.2 s
> c alive for a b d e, 0.0 s to 0.4 s
cut a b
run 60s
views
> a b c d e: a b c d e
changes
