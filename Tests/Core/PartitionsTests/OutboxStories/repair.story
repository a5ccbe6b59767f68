# By an error the topic partition has lost a member. The next change shows it, and the device partition tells all its members again.
phone registers
watch registers
phone subscribes to news
run 2s unseen
member phone of news is lost
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: nothing
watch subscribes to news
run 2s
> 2.001 s  the device partition writes record 6: watch subscribes to news
> 2.006 s  the database has record 6 of the device partition
> 2.006 s  the device partition offers entry 6 to the topic partition: watch joins news
> 2.007 s  the topic partition writes record 3: entry 6 of the device partition is applied
> 2.012 s  the database has record 3 of the topic partition
> 2.012 s  the topic partition tells the device partition: all up to entry 6 is applied here
> 2.013 s  the device partition sees by the fingerprint that the topic partition has other members
> 2.013 s  the device partition writes record 7: the topic partition is to have exactly these members: phone and watch in news; the topic partition has applied all up to entry 6
> 2.018 s  the database has record 7 of the device partition
> 2.018 s  the device partition offers entry 7 to the topic partition: exactly these members: phone and watch in news
> 2.019 s  the topic partition writes record 4: entry 7 of the device partition is applied
> 2.024 s  the database has record 4 of the topic partition
> 2.024 s  the topic partition tells the device partition: all up to entry 7 is applied here
> 2.025 s  the device partition answers watch: done
> 3.025 s  the device partition writes record 8: the topic partition has applied all up to entry 7
> 3.030 s  the database has record 8 of the device partition
look
> the device partition has as subscribed to news: phone and watch
> the topic partition has as members of news: phone and watch
