# A node that runs 25 milliseconds in each half second thinks badly of itself before it thinks badly of others: it declares nobody
# dead in ten minutes.
nodes 8
run 5s
changes
> a alive for b c d e f g h, 0.0 s to 0.0 s
> f alive for a b c d e g h, 0.0 s to 0.0 s
> g alive for a b c d e f h, 0.0 s to 0.2 s
> h alive for a b c d e f g, 0.0 s to 0.2 s
> c alive for a b d e f g h, 0.0 s to 0.2 s
> b alive for a c d e f g h, 0.0 s to 0.2 s
> d alive for a b c e f g h, 0.0 s to 0.2 s
> e alive for a b c d f g h, 0.0 s to 0.4 s
slow c 475
run 600s
views
> a b c d e f g h: a b c d e f g h
changes
> c suspect for a b d e f g h, 5.2 s to 604.8 s, 4687 times
> c alive for a b d e f g h, 5.4 s to 604.9 s, 6408 times
slow c 0
run 30s
views
> a b c d e f g h: a b c d e f g h
