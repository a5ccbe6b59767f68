import Model
import Partitions

// The brake on marks of gone addresses, which holds for a project in the whole process
// (rule: one-word-ends-nothing).

extension LoopCore: GoneBrake {
    /// A partition of this loop asks.
    public func take(_ ask: GoneAsk) -> GoneTally.Verdict {
        var ask = ask
        ask.loop = options.number
        ask.devices = partitions.values.reduce(0) { $0 + $1.deviceCount(of: ask.project) }
        ask.few = max(1, ask.few / nodes(orElse: ask.few))
        return host.withGoneTally { $0.take(ask) }
    }

    /// The nodes that share the marks which are permitted in any case. A node that does not know them
    /// permits one.
    private func nodes(orElse most: Int) -> Int {
        guard options.isClustered else { return 1 }
        return max(1, livingSessions.isEmpty ? most : livingSessions.count)
    }

    /// A partition begins. Its earlier owners may have made marks today.
    func noteGone(of partition: Partition) {
        let day = believed(now).wall.day
        let found = partition.goneMarks(on: day)
        if !found.isEmpty { host.withGoneTally { $0.note(found, of: partition.id, on: day) } }
    }

    /// Another day begins by the believed clock, which may have been wrong until now.
    func noteDay(_ day: Day) {
        guard day != goneDay else { return }
        goneDay = day
        for id in partitions.keys.sorted() { partitions[id].map(noteGone) }
    }
}
