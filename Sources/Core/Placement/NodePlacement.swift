import Model

/// Which of the live nodes each partition should be on: weighted rendezvous hashing.
///
/// A node has as many tickets as its weight. Each ticket has a number for each partition, and the ticket with
/// the highest number gets the partition for its node. A node that joins takes only what its own tickets win,
/// and a node that leaves gives up only what it had: nothing moves between two nodes that stay. All nodes
/// compute the same from the same list, in whatever order.
///
/// Zones need no rule here. Each zone has the share of its nodes' weights. A lost zone is spread over all
/// nodes of the other zones by weight, and nothing else moves. No other rule keeps shares and moves nothing
/// between nodes that stay, so no such rule could prefer another zone for an heir (docs/decisions/0010).
///
/// Unlike the placement of topics and devices, this placement is no part of the data's format: it computes
/// where a partition should be served, and the engine stores where it is served.
public struct NodePlacement: Sendable {
    public struct Candidate: Hashable, Sendable {
        /// The node's name, which outlives its restarts, so that a restart moves nothing.
        public var name: String
        /// 1...`weightMax`: the node's share of the partitions, in proportion to the other nodes' weights.
        public var weight: UInt8
        public init(name: String, weight: UInt8 = 1) {
            self.name = name
            self.weight = weight
        }
    }
    public static let weightMax: UInt8 = 64

    private let tickets: [(hash: UInt64, index: Int)]
    public let candidates: [Candidate]

    public init(_ candidates: [Candidate]) {
        self.candidates = candidates.sorted { $0.name < $1.name }
        var tickets: [(UInt64, Int)] = []
        for (index, candidate) in self.candidates.enumerated() {
            let name = NodePlacement.hash(candidate.name)
            for number in 0..<UInt64(max(1, min(candidate.weight, NodePlacement.weightMax))) {
                tickets.append((SeededGenerator.mixed(name &+ number &* 0x9e37_79b9_7f4a_7c15), index))
            }
        }
        self.tickets = tickets
    }

    /// `nil` if there is no candidate.
    public func node(of partition: PartitionID) -> Candidate? {
        let salt = SeededGenerator.mixed(UInt64(partition.rawValue) &+ 0x5851_f42d_4c95_7f2d)
        var best: (score: UInt64, index: Int)?
        for ticket in tickets {
            let score = SeededGenerator.mixed(ticket.hash ^ salt)
            if best.map({ score > $0.score }) ?? true { best = (score, ticket.index) }
        }
        return best.map { candidates[$0.index] }
    }

    /// FNV-1a over the name, then mixed.
    private static func hash(_ name: String) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        return SeededGenerator.mixed(hash)
    }
}
