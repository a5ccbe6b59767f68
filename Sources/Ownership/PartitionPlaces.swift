import Journal
import Model

extension SessionID {
    /// By which a process is known in the ids of its gateways: 24 bits.
    public var life: UInt32 { UInt32(truncatingIfNeeded: rawValue) & 0xFF_FFFF }
}

/// Where a partition is served, as a loop knows it.
public enum PartitionPlace: Hashable, Sendable {
    case here
    /// By another process, known by its life.
    case peer(UInt32)
    case nowhere
}

/// Where all partitions are served, and since which epoch.
public struct PartitionPlaces: Sendable {
    private var places: [PartitionPlace] = []
    private var epochs: [Epoch] = []

    public init() {}

    /// An owner that is no member is nowhere: nothing could be said to it.
    public init(_ routes: [Ownership.Route?], members: [Ownership.Member], own: SessionID) {
        let living = Set(members.map(\.session))
        for route in routes {
            switch route?.session {
            case own?: places.append(.here)
            case let owner? where living.contains(owner): places.append(.peer(owner.life))
            default: places.append(.nowhere)
            }
            epochs.append(route?.epoch ?? Epoch(0))
        }
    }

    public var isEmpty: Bool { places.isEmpty }

    /// What a peer names may be no partition of this cluster.
    public subscript(_ partition: PartitionID) -> PartitionPlace {
        let number = Int(partition.rawValue)
        return number < places.count ? places[number] : .nowhere
    }

    /// In which it is served there.
    public func epoch(of partition: PartitionID) -> Epoch {
        let number = Int(partition.rawValue)
        return number < epochs.count ? epochs[number] : Epoch(0)
    }

    /// By partition number, whether it has another owner or another epoch than in `former`; `nil` where none
    /// has.
    public func changed(since former: PartitionPlaces) -> [Bool]? {
        let changed = places.indices.map { number in
            number >= former.places.count || former.places[number] != places[number]
                || former.epochs[number] != epochs[number]
        }
        return changed.contains(true) ? changed : nil
    }

    /// By partition number, whether the process serves it; `nil` where it serves none.
    public func served(by life: UInt32) -> [Bool]? {
        let served = places.map { $0 == .peer(life) }
        return served.contains(true) ? served : nil
    }
}
