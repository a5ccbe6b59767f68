import Model
import Partitions

extension LoopCore {
    /// The first law that does not hold between two turns; `nil` where all do. Looked at after each turn in
    /// debug builds and wherever somebody observes.
    var brokenInvariant: String? {
        if !rows.isEmpty { return "rows of a turn are left" }
        if !toPeers.isEmpty { return "something for another process is left" }
        if let id = leaving.first(where: { partitions[$0] == nil }) {
            return "partition \(id.rawValue) is being given up, and has no machine"
        }
        if let id = inherited.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and the rest of it is awaited"
        }
        if let id = quarantined.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and quarantined"
        }
        if let id = closing.keys.first(where: { partitions[$0] != nil }) {
            return "partition \(id.rawValue) is served, and its former machine's rows are not settled"
        }
        if let (id, partition) = partitions.first(where: { $0.key != $0.value.id }) {
            return "partition \(partition.id.rawValue) stands in the place of \(id.rawValue)"
        }
        if let id = partitions.keys.first(where: { options.map.loop(of: $0) != options.number }) {
            return "partition \(id.rawValue) is another loop's"
        }
        return nil
    }

    func checkInvariants() {
        var isChecked = observer != nil
        #if DEBUG
            isChecked = true
        #endif
        guard isChecked, let broken = brokenInvariant else { return }
        guard let observer else { preconditionFailure(broken) }
        observer.isBroken(broken)
    }
}
