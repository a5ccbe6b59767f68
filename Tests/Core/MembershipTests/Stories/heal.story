# Two halves hold each other dead for ten minutes. Then the cut heals: they find each other without a hand, in seconds.
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
split a b c d | e f g h
run 600s
views
> a b c d: a b c d e(dead) f(dead) g(dead) h(dead)
> e f g h: a(dead) b(dead) c(dead) d(dead) e f g h
changes
> c suspect for e f g h, 5.2 s to 5.2 s
> e suspect for a b c d, 5.2 s to 5.4 s
> f suspect for a b c d, 5.2 s to 5.5 s
> d suspect for e f g h, 5.6 s to 5.9 s
> b suspect for e f g h, 5.8 s to 6.1 s
> g suspect for a b c d, 5.8 s to 6.0 s
> h suspect for a b c d, 5.8 s to 6.0 s
> c dead for e f g h, 6.2 s to 6.6 s
> a suspect for e f g h, 6.4 s to 6.6 s
> e dead for a b c d, 7.0 s to 7.0 s
> b dead for e f g h, 7.6 s to 7.9 s
> g dead for a b c d, 7.6 s to 7.7 s
> d dead for e f g h, 7.7 s to 7.7 s
> h dead for a b c d, 7.8 s to 8.0 s
> f dead for a b c d, 8.2 s to 8.2 s
> a dead for e f g h, 8.2 s to 8.4 s
heal
run 5s
views
> a b c d e f g h: a b c d e f g h
changes
> h alive for a b c d e f g, 605.1 s to 605.1 s
> c alive for a b d e f g h, 605.1 s to 605.1 s
> a suspect for b c d, 605.1 s to 605.1 s
> b suspect for c, 605.1 s to 605.1 s
> d suspect for b c, 605.1 s to 605.1 s
> e suspect for f g h, 605.1 s to 605.1 s
> f suspect for g h, 605.1 s to 605.1 s
> g suspect for h, 605.1 s to 605.1 s
> b alive for a c d e f g h, 605.1 s to 605.2 s
> a alive for b c d e f g h, 605.1 s to 605.2 s
> d alive for a b c e f g h, 605.1 s to 605.2 s
> f alive for a b c d e g h, 605.1 s to 605.1 s
> e alive for a b c d f g h, 605.1 s to 605.2 s
> g alive for a b c d e f h, 605.1 s to 605.1 s
