"""Resources of the machine that the attempts of this runner share: its disk and the cache of provider plug-ins."""
