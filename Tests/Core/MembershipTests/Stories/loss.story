# One datagram in five is lost and one in twenty comes twice: suspicions, and nobody dies in ten minutes.
nodes 12
loss 200
doubled 50
run 10s
views
> a b c d e f g h i j k l: a b c d e f g h i j k l
run 600s
views
> a b c d e f g h i j k l: a b c d e f g h i j k l
