# Nodes that know only a wait for it: the seeds are tried for ever.
start b
start c
run 20s
views
> b: b
> c: c
start a
run 4s
views
> b c a: a b c
