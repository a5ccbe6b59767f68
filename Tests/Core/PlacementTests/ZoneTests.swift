import Model
import Placement
import Testing

/// Placement over zones, against the definition: zones own shares by weight, and nothing moves between two
/// nodes that stay.
@Suite("Placement over zones")
struct ZoneTests {
    private struct Node: Hashable {
        var name: String
        var zone: Int
        var weight: UInt8
    }
    private let all = (0..<4096).map { PartitionID(UInt16($0)) }

    /// Three zones of different strength.
    private let nodes: [Node] = [(4, 1), (2, 3), (3, 1)].enumerated().flatMap { zone, shape in
        (0..<shape.0).map { Node(name: "zone-\(zone)-\($0)", zone: zone, weight: UInt8(shape.1)) }
    }

    private func owners(_ nodes: [Node]) -> [Node] {
        let placement = NodePlacement(nodes.map { .init(name: $0.name, weight: $0.weight) })
        let byName = Dictionary(uniqueKeysWithValues: nodes.map { ($0.name, $0) })
        return all.compactMap { placement.node(of: $0).flatMap { byName[$0.name] } }
    }

    /// A count that is more than six standard deviations off is no chance.
    private func isShare(_ count: Int, of total: Int, _ weight: Int, of weights: Int) -> Bool {
        let share = Double(weight) / Double(weights)
        let expected = Double(total) * share
        return abs(Double(count) - expected) <= 6 * (expected * (1 - share)).squareRoot()
    }

    private func weight(_ nodes: [Node]) -> Int { nodes.reduce(0) { $0 + Int($1.weight) } }

    @Test("a zone owns the share of its nodes' weights")
    func shares() {
        let owners = owners(nodes)
        #expect(owners.count == all.count)
        for zone in 0..<3 {
            let own = nodes.filter { $0.zone == zone }
            let count = owners.count { $0.zone == zone }
            #expect(isShare(count, of: all.count, weight(own), of: weight(nodes)), "zone \(zone): \(count)")
        }
    }

    @Test("a lost zone is spread over all nodes of the others by weight, and nothing else moves")
    func lostZone() {
        let before = owners(nodes)
        for zone in 0..<3 {
            let left = nodes.filter { $0.zone != zone }
            let after = owners(left)
            var heirs: [Node: Int] = [:]
            for (former, next) in zip(before, after) {
                if former.zone == zone { heirs[next, default: 0] += 1 } else { #expect(former == next) }
            }
            let lost = before.count { $0.zone == zone }
            for node in left {
                let count = heirs[node, default: 0]
                #expect(
                    isShare(count, of: lost, Int(node.weight), of: weight(left)), "\(node.name): \(count)")
            }
        }
    }

    /// Other nodes notice the loss of a zone node by node. Partitions of nodes that stay never move, and each
    /// order of losses ends alike.
    @Test("a zone that is lost node by node, in any order, moves nothing of the others")
    func oneByOne() {
        var random = SeededGenerator(seed: 4)
        for zone in 0..<3 {
            let last = owners(nodes.filter { $0.zone != zone })
            for _ in 0..<5 {
                var left = nodes
                var owners = owners(left)
                for gone in nodes.filter({ $0.zone == zone }).shuffled(using: &random) {
                    left.removeAll { $0 == gone }
                    let next = self.owners(left)
                    for (former, next) in zip(owners, next) where former != next { #expect(former == gone) }
                    owners = next
                }
                #expect(owners == last)
            }
        }
    }

    /// Placement cannot choose the heirs' zones: shares by weight leave no other heirs (docs/decisions/0010).
    @Test("a node's heirs are the others by weight, in its own zone as in any")
    func heirs() {
        let before = owners(nodes)
        for gone in nodes {
            let left = nodes.filter { $0 != gone }
            let after = owners(left)
            let lost = before.count { $0 == gone }
            let own = left.filter { $0.zone == gone.zone }
            let stayed = zip(before, after).count { $0 == gone && $1.zone == gone.zone }
            #expect(isShare(stayed, of: lost, weight(own), of: weight(left)), "\(gone.name): \(stayed)")
        }
    }

    @Test("a node that comes takes from all zones by weight, and gives back the same when it goes")
    func joined() {
        let before = owners(nodes)
        let new = Node(name: "zone-1-new", zone: 1, weight: 2)
        let after = owners(nodes + [new])
        var taken = [0, 0, 0]
        for (former, next) in zip(before, after) where former != next {
            #expect(next == new)
            taken[former.zone] += 1
        }
        let total = taken.reduce(0, +)
        #expect(isShare(total, of: all.count, 2, of: weight(nodes) + 2))
        for zone in 0..<3 {
            let own = nodes.filter { $0.zone == zone }
            #expect(isShare(taken[zone], of: total, weight(own), of: weight(nodes)))
        }
    }
}
