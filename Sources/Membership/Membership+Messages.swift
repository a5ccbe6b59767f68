import Model

// What membership hears and says.

extension Membership {
    public struct Options: Sendable {
        /// Nanoseconds between the probes of two nodes.
        public var probeInterval: UInt64 = .milliseconds(200)
        /// Nanoseconds after which others are asked to probe.
        public var ackTimeout: UInt64 = .milliseconds(100)
        /// How many others are asked.
        public var relays = 3
        /// Nanoseconds for which a suspicion lasts when many share it, and when nobody does.
        public var suspicionMin: UInt64 = .seconds(1)
        public var suspicionMax: UInt64 = .seconds(5)
        /// Others who must share a suspicion for it to be as short as can be.
        public var confirmations = 3
        /// Nanoseconds without a packet from anybody after which this node counts itself as cut off.
        public var isolation: UInt64 = .seconds(2)
        /// Nanoseconds between two tries to reach one of the dead or a seed.
        public var healingInterval: UInt64 = .seconds(1)
        /// Nanoseconds between two comparisons of everything with somebody, in clusters of up to 32.
        public var syncInterval: UInt64 = .seconds(30)
        /// News are told this many times the binary logarithm of the number of nodes.
        public var tellingsFactor = 3
        /// Nanoseconds after which one of the dead is forgotten.
        public var memoryOfTheDead: UInt64 = .seconds(86_400)
        /// Members that are remembered at most; beyond them no new ones are believed.
        public var membersMax = 8192
        /// Bytes of a datagram's packet before it is sealed: room for what is said of one node at least.
        public var packetBytesMax = Membership.packetBytesMax
        /// Bytes of what is compared over a connection.
        public var syncBytesMax = 4 << 20
        /// Facts that are remembered at most, probes that are made for others at once, and questions to seeds
        /// without an answer.
        public var factsMax = 8192
        public var relaysMax = 1024
        public var seedQuestionsMax = 64
        /// How slow a node may find itself at most: it gives others so many times more time.
        public var healthMax = 8
        /// Nanoseconds after a contradiction in which a broken connection says nothing of its node: at first,
        /// and at most.
        public var doubtsMin: UInt64 = .seconds(10)
        public var doubtsMax: UInt64 = .seconds(600)
        #if DEBUG
            /// A planted bug: datagrams are believed however often they come.
            public var plantedAcceptReplays = false
        #endif
        public init() {}

        /// What must hold of them, if it does not.
        public var mistake: String? {
            if probeInterval == 0 || healingInterval == 0 || syncInterval == 0 {
                return "what is done again and again takes some time"
            }
            if ackTimeout < 2 || ackTimeout > probeInterval {
                return "a probe is over, direct and through others, before the next one begins"
            }
            if suspicionMin < probeInterval || suspicionMin > suspicionMax {
                return "a suspicion lasts for a probe at least, and shared no longer than alone"
            }
            if isolation < probeInterval * 2 { return "who is alone has missed two probes" }
            if packetBytesMax < Options.packetBytesLeast || packetBytesMax > Membership.packetBytesMax {
                return "a packet has room for what is said of one node, and is one datagram"
            }
            if syncBytesMax < 8192 { return "a comparison has room for some nodes" }
            if doubtsMin > doubtsMax { return "doubts grow" }
            let counts = [tellingsFactor, membersMax, factsMax, relaysMax, seedQuestionsMax]
            return counts.contains { $0 < 1 } ? "one is the least of everything" : nil
        }

        /// Short names and addresses need less than the longest.
        static let packetBytesLeast = 300
    }

    public enum State: UInt8, Sendable {
        case alive = 0
        case suspect = 1
        case dead = 2
        /// Gone in order, replaced by a later process of its name, or fenced.
        case left = 3
    }

    public struct Member: Hashable, Sendable {
        public var session: SessionID
        public var name: String
        /// Where its gossip is reached, `HOST:PORT`.
        public var address: String
        public var info: [UInt8]
        public var incarnation: UInt32
        public var state: State
        /// When its state changed last.
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

    /// A small thing that all should know soon. Of two with one key the higher version holds.
    public struct Fact: Hashable, Sendable {
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
        /// A packet whose sender has shown that it is of this cluster, and where it came from, `HOST:PORT`.
        case datagram([UInt8], from: String)
        /// The same over a connection to the process that the packet names as its sender.
        case stream([UInt8])
        /// A connection to or from the process broke.
        case linkReset(SessionID)
        /// Addresses that are tried for as long as nobody there is known to be alive.
        case seeds([String])
        /// The engine's table as it was just read.
        case table([Row])
        case publish(Fact)
        /// What this node says of itself has changed.
        case describe([UInt8])
        case leave
    }

    public enum Effect: Sendable {
        case datagram([UInt8], to: String)
        /// Over the connection to the process, if there is a way to it.
        case stream([UInt8], to: SessionID)
        case changed(Member)
        case learned(Fact)
        /// Nobody is heard at all, or somebody is again.
        case isolated(Bool)
        /// A packet made no sense; why.
        case malformed(String)
        /// A datagram of this cluster that is a repetition, or may be one; why.
        case refused(String)
        case wake(at: MonotonicTime)
    }

    /// The most bytes of a packet in a datagram, before it is sealed.
    public static let packetBytesMax = 1360
}
