-- How many apps an account may own; null: as the settings of the machine say.
ALTER TABLE accounts ADD COLUMN max_apps INTEGER CHECK (max_apps >= 0);
