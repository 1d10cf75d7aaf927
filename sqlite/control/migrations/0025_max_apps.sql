-- Maximum apps that an account may own; null: the maximum in the machine's settings.
ALTER TABLE accounts ADD COLUMN max_apps INTEGER CHECK (max_apps >= 0);
