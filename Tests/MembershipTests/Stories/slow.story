# A node that runs 25 milliseconds in each half second thinks badly of itself before it thinks badly of others: it declares nobody
# dead in ten minutes.
nodes 8
run 5s
changes
> f alive for a b c d e g h, 0.0 s to 0.0 s
> g alive for a b c d e f h, 0.0 s to 0.0 s
> a alive for b c d e f g h, 0.0 s to 0.0 s
> h alive for a b c d e f g, 0.0 s to 0.0 s
> b alive for a c d e f g h, 0.0 s to 0.0 s
> d alive for a b c e f g h, 0.0 s to 0.0 s
> c alive for a b d e f g h, 0.0 s to 0.0 s
> e alive for a b c d f g h, 0.0 s to 0.0 s
slow c 475
run 600s
views
> a b c d e f g h: a b c d e f g h
changes
> c suspect for a b d e f g h, 5.8 s to 604.8 s, 4906 times
> c alive for a b d e f g h, 5.9 s to 604.9 s, 6611 times
slow c 0
run 30s
views
> a b c d e f g h: a b c d e f g h
