import Model

extension SessionID {
    /// The process id, which is part of the ids of the process's gateways: 24 bits.
    public var processID: ProcessID { ProcessID(UInt32(truncatingIfNeeded: rawValue) & ProcessID.rawMax) }
}

/// Where a partition is served, as a loop knows it.
public enum PartitionPlace: Hashable, Sendable {
    case here
    /// By another process, named by its process id.
    case peer(ProcessID)
    case nowhere
}

/// Where all partitions are served, and since which epoch.
public struct PartitionPlaces: Sendable {
    private var places: [PartitionPlace] = []
    private var epochs: [Epoch] = []

    public init() {}

    /// An owner that is no member is nowhere: this process could not reach it.
    public init(_ routes: [Ownership.Route?], members: [Ownership.Member], own: SessionID) {
        let living = Set(members.map(\.session))
        for route in routes {
            switch route?.session {
            case own?: places.append(.here)
            case let owner? where living.contains(owner): places.append(.peer(owner.processID))
            default: places.append(.nowhere)
            }
            epochs.append(route?.epoch ?? Epoch(0))
        }
    }

    /// All partitions are here, each since its epoch: on a lone node.
    public init(whole epochs: [Epoch]) {
        places = Array(repeating: .here, count: epochs.count)
        self.epochs = epochs
    }

    public var isEmpty: Bool { places.isEmpty }

    /// The partitions that are nowhere.
    public var nowhere: PartitionSet {
        var set = PartitionSet()
        for number in places.indices where places[number] == .nowhere {
            set.insert(PartitionID(UInt16(number)))
        }
        return set
    }

    /// A partition that does not exist is nowhere: a peer may name any number.
    public subscript(_ partition: PartitionID) -> PartitionPlace {
        let number = Int(partition.rawValue)
        return number < places.count ? places[number] : .nowhere
    }

    /// The epoch in which the place serves the partition; 0 if it has no route.
    public func epoch(of partition: PartitionID) -> Epoch {
        let number = Int(partition.rawValue)
        return number < epochs.count ? epochs[number] : Epoch(0)
    }

    /// By partition number, whether it has another place or another epoch than in `former`; `nil` if none
    /// has.
    public func changed(since former: PartitionPlaces) -> [Bool]? {
        let changed = places.indices.map { number in
            number >= former.places.count || former.places[number] != places[number]
                || former.epochs[number] != epochs[number]
        }
        return changed.contains(true) ? changed : nil
    }

    /// By partition number, whether the process serves the partition; `nil` if the process serves none.
    public func served(by processID: ProcessID) -> [Bool]? {
        let served = places.map { $0 == .peer(processID) }
        return served.contains(true) ? served : nil
    }
}
