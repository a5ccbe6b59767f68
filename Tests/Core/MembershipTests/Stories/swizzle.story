# Links are cut one after the other and healed all at once, under loss.
nodes 6
loss 50
run 5s
cut a b
run 2s
cut c > d
run 2s
cut a c
run 2s
cut a d
run 2s
cut e > a
run 20s
heal
run 10s
views
> a b c d e f: a b c d e f
