import Model

// The options, events and effects of membership.

extension Membership {
    public struct Options: Sendable {
        /// The time between the probes of two nodes.
        public var probeInterval: TimeSpan = .milliseconds(200)
        /// After this long without an answer a node asks others to probe.
        public var ackTimeout: TimeSpan = .milliseconds(100)
        /// How many others the node asks.
        public var relays = 3
        /// How long a suspicion lasts: when many nodes share it, and when no other node does.
        public var suspicionMin: TimeSpan = .seconds(1)
        public var suspicionMax: TimeSpan = .seconds(5)
        /// How many other nodes must share a suspicion to shorten it to `suspicionMin`.
        public var confirmations = 3
        /// After this long without a packet from any other node this node counts itself as cut off.
        public var isolation: TimeSpan = .seconds(2)
        /// The time between two tries to reach a dead member or a seed.
        public var healingInterval: TimeSpan = .seconds(1)
        /// The time between two comparisons of everything with another member, in clusters of up to 32.
        public var syncInterval: TimeSpan = .seconds(30)
        /// A piece of news goes into this many packets times the binary logarithm of the number of nodes.
        public var retransmitFactor = 3
        /// After this long a node forgets a dead member.
        public var deadRetention: TimeSpan = .seconds(86_400)
        /// How many members a node remembers at most; it believes in no new ones beyond them.
        public var membersMax = 8192
        /// Bytes of a datagram's packet before it is sealed: at least enough for the news of one node.
        public var packetBytesMax = Membership.packetBytesMax
        /// Bytes of one comparison over a connection.
        public var syncBytesMax = 4 << 20
        /// At most: entries that a node remembers, probes that it makes for others at once, and questions to
        /// seeds without an answer.
        public var entriesMax = 8192
        public var relaysMax = 1024
        public var seedQuestionsMax = 64
        /// The highest score of a node's own slowness: the node's timeouts are `score + 1` times as long.
        public var healthMax = 8
        /// How long after a contradiction a broken connection is no evidence about its node: at first, and at
        /// most.
        public var doubtsMin: TimeSpan = .seconds(10)
        public var doubtsMax: TimeSpan = .seconds(600)
        #if DEBUG
            /// A planted bug: the node believes a datagram however often it comes.
            public var plantedAcceptReplays = false
        #endif
        public init() {}

        /// The first rule that the options break; `nil` if they break none.
        public var mistake: String? {
            if [probeInterval, healingInterval, syncInterval].contains(.zero) {
                return "`probeInterval`, `healingInterval` and `syncInterval` must be longer than zero"
            }
            if ackTimeout < .nanoseconds(2) || ackTimeout > probeInterval {
                return "`ackTimeout` must be at least 2 ns, and at most `probeInterval`"
            }
            if suspicionMin < probeInterval || suspicionMin > suspicionMax {
                return "`suspicionMin` must be at least `probeInterval`, and at most `suspicionMax`"
            }
            if isolation < probeInterval * 2 { return "`isolation` must be at least two probe intervals" }
            if packetBytesMax < Options.packetBytesLeast || packetBytesMax > Membership.packetBytesMax {
                return
                    "`packetBytesMax` must be \(Options.packetBytesLeast) to \(Membership.packetBytesMax)"
            }
            if syncBytesMax < 8192 { return "`syncBytesMax` must be at least 8,192" }
            if doubtsMin > doubtsMax { return "`doubtsMin` must be at most `doubtsMax`" }
            let counts = [retransmitFactor, membersMax, entriesMax, relaysMax, seedQuestionsMax]
            return counts.contains { $0 < 1 } ? "each factor and each count must be at least 1" : nil
        }

        /// Enough for a node with a short name, address and info; the longest need more.
        static let packetBytesLeast = 300
    }

    public enum State: UInt8, Sendable {
        case alive = 0
        case suspect = 1
        case dead = 2
        /// The process left in order, a later process of its name replaced it, or it was fenced.
        case left = 3
    }

    public struct Member: Hashable, Sendable {
        public var session: SessionID
        public var name: String
        /// The address of the member's gossip, `HOST:PORT`.
        public var address: String
        public var info: [UInt8]
        public var incarnation: UInt32
        public var state: State
        /// When the member's state changed last.
        public var since: MonotonicTime
    }

    /// A row of the engine's table of nodes.
    public struct Row: Hashable, Sendable {
        public var session: SessionID
        public var name: String
        public var address: String
        public var info: [UInt8]
        public init(session: SessionID, name: String, address: String, info: [UInt8]) {
            self.session = session
            self.name = name
            self.address = address
            self.info = info
        }
    }

    /// A small value that all nodes should know soon. Of two entries with one key the higher version holds.
    public struct GossipEntry: Hashable, Sendable {
        public var key: UInt32
        public var version: UInt64
        public var value: UInt64
        public init(key: UInt32, version: UInt64, value: UInt64) {
            self.key = key
            self.version = version
            self.value = value
        }
    }

    public enum Event: Sendable {
        case woke
        /// A packet whose seal shows a sender of this cluster, and the sender's address, `HOST:PORT`.
        case datagram([UInt8], from: String)
        /// A packet over a connection to the process that the packet names as its sender.
        case stream([UInt8])
        /// A connection to or from the process broke.
        case linkReset(SessionID)
        /// Addresses that the node tries for as long as it knows no living process there.
        case seeds([String])
        /// The engine's table, just read.
        case table([Row])
        case publish(GossipEntry)
        /// A new description of this node (`Member.info`).
        case describe([UInt8])
        case leave
    }

    public enum Effect: Sendable {
        case datagram([UInt8], to: String)
        /// A packet for the connection to the process, if there is one.
        case stream([UInt8], to: SessionID)
        case changed(Member)
        case learned(GossipEntry)
        /// `true`: this node receives from no other node any more. `false`: from another node again.
        case isolated(Bool)
        /// A packet that makes no sense, with the reason.
        case malformed(String)
        /// A datagram of this cluster that is a repetition, or may be one, with the reason.
        case refused(String)
        case wake(at: MonotonicTime)
    }

    /// How many bytes a packet in a datagram has at most, before it is sealed.
    public static let packetBytesMax = 1360
}
