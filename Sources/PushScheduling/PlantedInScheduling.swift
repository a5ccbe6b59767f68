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
    }
#endif
