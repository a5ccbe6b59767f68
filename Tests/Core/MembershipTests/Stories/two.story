# With two nodes nobody can be asked: each judges for itself.
nodes 2
run 3s
changes
> a alive for b, 0.0 s to 0.0 s
> b alive for a, 0.0 s to 0.0 s
cut a b
run 10s
views
> a: a b(dead)
> b: a(dead) b
changes
> a suspect for b, 3.2 s to 3.2 s
> b suspect for a, 3.2 s to 3.2 s
> a dead for b, 4.2 s to 4.2 s
> b dead for a, 4.2 s to 4.2 s
> a is cut off, 5.0 s
> b is cut off, 5.7 s
heal
run 4s
views
> a b: a b
