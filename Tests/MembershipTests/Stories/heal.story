# Two halves hold each other dead for ten minutes. Then the cut heals: they find each other without a hand, in seconds.
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
split a b c d | e f g h
run 600s
views
> a b c d: a b c d e(dead) f(dead) g(dead) h(dead)
> e f g h: a(dead) b(dead) c(dead) d(dead) e f g h
changes
> b suspect for e f g h, 5.2 s to 5.5 s
> d suspect for e f g h, 5.2 s to 5.5 s
> f suspect for a b c d, 5.2 s to 5.4 s
> g suspect for a b c d, 5.2 s to 5.3 s
> e suspect for a b c d, 5.4 s to 5.7 s
> h suspect for a b c d, 6.0 s to 6.2 s
> c suspect for e f g h, 6.2 s to 6.3 s
> d dead for e f g h, 6.5 s to 6.8 s
> a suspect for e f g h, 6.8 s to 7.1 s
> e dead for a b c d, 6.8 s to 7.0 s
> b dead for e f g h, 7.0 s to 7.1 s
> f dead for a b c d, 7.0 s to 7.2 s
> g dead for a b c d, 7.4 s to 7.5 s
> c dead for e f g h, 7.8 s to 8.1 s
> h dead for a b c d, 7.8 s to 7.8 s
> a dead for e f g h, 8.0 s to 8.1 s
heal
run 5s
views
> a b c d e f g h: a b c d e f g h
changes
> f alive for a b c d e g h, 605.0 s to 605.0 s
> b alive for a c d e f g h, 605.0 s to 605.0 s
> a suspect for b c d, 605.0 s to 605.0 s
> c suspect for a b d, 605.0 s to 605.0 s
> d suspect for a b c, 605.0 s to 605.0 s
> a alive for b c d e f g h, 605.0 s to 605.0 s
> d alive for a b c e f g h, 605.0 s to 605.0 s
> c alive for a b d e f g h, 605.0 s to 605.0 s
> e suspect for f g h, 605.0 s to 605.0 s
> g suspect for f h, 605.0 s to 605.0 s
> h suspect for f g, 605.0 s to 605.0 s
> g alive for a b c d e f h, 605.0 s to 605.0 s
> h alive for a b c d e f g, 605.0 s to 605.0 s
> e alive for a b c d f g h, 605.0 s to 605.0 s
