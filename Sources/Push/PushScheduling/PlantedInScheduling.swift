#if DEBUG
    /// Bugs that are planted in the machines of this module to show that a checker sees them. Only debug
    /// builds have them, and only a simulation switches them on.
    public struct PlantedInScheduling: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// An origin gets as many requests at once as wait for it.
        public static let crowdOrigins = PlantedInScheduling(rawValue: 1)
        /// A project takes all places that are free.
        public static let takeAllPlaces = PlantedInScheduling(rawValue: 2)
        /// A project whose request has left has the next turn as well.
        public static let keepTurns = PlantedInScheduling(rawValue: 4)
        /// Requests that have waited for too long go on waiting.
        public static let waitForever = PlantedInScheduling(rawValue: 8)
        /// Requests of one team go over connections of another.
        public static let mixTeams = PlantedInScheduling(rawValue: 16)
        /// A connection carries as many requests as there are, whatever the service allows.
        public static let openManyStreams = PlantedInScheduling(rawValue: 32)
        /// A request without an answer leaves again, though the service may have processed the request.
        public static let resendLost = PlantedInScheduling(rawValue: 64)
        /// A connection that the service ends in order goes on to take requests.
        public static let ignoreGoAway = PlantedInScheduling(rawValue: 128)
        /// A pool begins its next connection as soon as the last one has ended.
        public static let connectAtOnce = PlantedInScheduling(rawValue: 256)
        /// A service that allows fewer streams than before gets as many as before.
        public static let keepBound = PlantedInScheduling(rawValue: 512)
    }
#endif
